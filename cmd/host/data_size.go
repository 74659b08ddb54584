package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// kindSize is what the files of one kind take.
type kindSize struct {
	Kind  string `json:"kind"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

func (a *app) dataSize() *cobra.Command {
	return a.reads(&cobra.Command{
		Use:   "size DIR",
		Short: "Show how large the files are, by kind",
		Long: `Show how long the files of each kind are, as the directories of a data directory are called. It only looks at names and
lengths, so a server may be running. Files are made at their full length: what they take on the disk can be less.`,
		Example: "  tidewheel data size ./data\n  tidewheel data size ./data --watch=10s",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			kinds, err := sizes(args[0])
			if err != nil {
				return err
			}
			total := kindSize{Kind: "total"}
			out := a.list("KIND", "FILES", "BYTES", "SIZE")
			for _, kind := range slices.Sorted(maps.Keys(kinds)) {
				k := kinds[kind]
				total.Files, total.Bytes = total.Files+k.Files, total.Bytes+k.Bytes
				if err := out.add(k, k.Kind, whole(k.Files), whole(k.Bytes), bytesText(k.Bytes)); err != nil {
					return err
				}
			}
			if err := out.add(total, total.Kind, whole(total.Files), whole(total.Bytes), bytesText(total.Bytes)); err != nil {
				return err
			}
			return out.close()
		},
	})
}

// sizes adds up the files of a directory by kind. What goes away meanwhile counts nothing.
func sizes(dir string) (map[string]*kindSize, error) {
	kinds := map[string]*kindSize{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil && path != dir && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		kind, _, inside := strings.Cut(filepath.ToSlash(rel), "/")
		if !inside {
			kind = "other"
		}
		k := kinds[kind]
		if k == nil {
			k = &kindSize{Kind: kind}
			kinds[kind] = k
		}
		k.Files, k.Bytes = k.Files+1, k.Bytes+info.Size()
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: there is no directory %s", errNotFound, dir)
	}
	return kinds, err
}
