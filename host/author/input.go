package author

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/guest/golden"
)

// Input is a file of records.
type Input struct {
	File    string
	Hook    abi.Hook
	Records []golden.Record
}

// Inputs are the files of records in a directory of tests, as package golden names them; none when there is no directory.
func Inputs(dir string) ([]Input, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.ndjson"))
	if err != nil {
		return nil, err
	}
	var all []Input
	for _, name := range names {
		base := strings.TrimSuffix(filepath.Base(name), ".ndjson")
		kind, _, _ := strings.Cut(base, "-")
		hook, ok := abi.ParseHook(kind)
		if !ok || strings.HasSuffix(base, ".verdicts") {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		records, err := golden.ReadRecords(bytes.NewReader(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, Input{File: name, Hook: hook, Records: records})
	}
	return all, nil
}

// LineError is a line of records that can't be read.
type LineError struct {
	Line int // from 1
	Err  error
}

// Error names the line.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the reason.
func (e *LineError) Unwrap() error { return e.Err }

// EachRecord reads lines of records as they come and calls do for each, with the number of its line, or with the *LineError of
// a line that is none; empty lines count and are passed over. It ends with the first error of do, or of reading.
func EachRecord(r io.Reader, do func(line int, record golden.Record, bad *LineError) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, golden.MaxLine)
	n := 0
	for s.Scan() {
		n++
		text := bytes.TrimSpace(s.Bytes())
		if len(text) == 0 {
			continue
		}
		record, err := golden.ParseRecord(text)
		var bad *LineError
		if err != nil {
			bad = &LineError{Line: n, Err: err}
		}
		if err := do(n, record, bad); err != nil {
			return err
		}
	}
	if err := s.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %d MiB", n+1, golden.MaxLine>>20)
	} else if err != nil {
		return err
	}
	return nil
}

// Targets is how many targets a plugin routes to in its tests: one more than the greatest number in the files of verdicts.
func Targets(dir string) (int, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.verdicts.ndjson"))
	if err != nil {
		return 0, err
	}
	most := 0
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return 0, err
		}
		verdicts, err := golden.ReadVerdicts(bytes.NewReader(b))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		for _, v := range verdicts {
			if v.Action == abi.Route.String() {
				most = max(most, int(v.Target)+1)
			}
		}
	}
	return most, nil
}
