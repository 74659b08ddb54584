package golden

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/guest"
)

// Decide gives the verdicts on one batch, one for each record. An error ends the check.
type Decide func(hook abi.Hook, nowMs int64, records []abi.Record) ([]Verdict, error)

// Native decides with the functions that the process has registered with package guest: a plugin's code without WebAssembly.
func Native(hook abi.Hook, nowMs int64, records []abi.Record) ([]Verdict, error) {
	var all []Verdict
	for _, v := range guest.Run(hook, nowMs, records) {
		if v.Action() == abi.Error {
			all = append(all, Failed(ClassError, v.Code(), v.Text()))
			continue
		}
		output, _ := v.Output()
		all = append(all, Decided(hook, abi.NewVerdict(v.Action(), v.Code(), v.Arg()), output))
	}
	return all, nil
}

// Report says what a check found.
type Report struct {
	Files   []string // of records, in the order in which they were decided
	Records int
	Diffs   []Diff
	Updated []string // files of verdicts that were written
}

// Diff is a verdict that is not the one in the file.
type Diff struct {
	File      string // of records
	Line      int    // the number of the record in it, from 1
	Record    Record
	Got, Want string // lines; empty for none
}

// String is the difference on three lines.
func (d Diff) String() string {
	return fmt.Sprintf("%s, record %d (key %q):\n\tgot  %s\n\twant %s", d.File, d.Line, d.Record.Key, d.Got, d.Want)
}

// ErrNoFiles is returned when a directory has no file of records, so that a test of nothing fails.
var ErrNoFiles = errors.New("golden: no file named HOOK.ndjson or HOOK-WHAT.ndjson")

const (
	recordsEnd  = ".ndjson"
	verdictsEnd = ".verdicts.ndjson"
)

// Check decides every file of records in dir and compares with the files of verdicts. With update it writes them instead. The
// differences are in the report; an error means that something could not be read, decided or written.
func Check(dir string, decide Decide, update bool) (Report, error) {
	var report Report
	names, err := filepath.Glob(filepath.Join(dir, "*"+recordsEnd))
	if err != nil {
		return report, fmt.Errorf("golden: %w", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, verdictsEnd) {
			continue
		}
		if err := report.file(name, decide, update); err != nil {
			return report, fmt.Errorf("golden: %s: %w", name, err)
		}
	}
	if len(report.Files) == 0 {
		return report, fmt.Errorf("%w in %s", ErrNoFiles, dir)
	}
	return report, nil
}

// Config is the plugin's configuration in dir; nil when it has none.
func Config(dir string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

func (r *Report) file(name string, decide Decide, update bool) error {
	base := strings.TrimSuffix(filepath.Base(name), recordsEnd)
	kind, _, _ := strings.Cut(base, "-")
	hook, ok := abi.ParseHook(kind)
	if !ok {
		return fmt.Errorf("%q is not a hook: publish, filter, transform, prepare, result", kind)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	records, err := ReadRecords(bytes.NewReader(b))
	if err != nil {
		return err
	}
	got, err := All(hook, records, decide)
	if err != nil {
		return err
	}
	r.Files = append(r.Files, name)
	r.Records += len(records)
	return r.compare(name, records, got, update)
}

// All decides records in batches of lines with the same time.
func All(hook abi.Hook, records []Record, decide Decide) ([]Verdict, error) {
	var all []Verdict
	for lo := 0; lo < len(records); {
		hi := lo
		var batch []abi.Record
		for hi < len(records) && records[hi].NowMs == records[lo].NowMs {
			batch = append(batch, records[hi].ABI(hook))
			hi++
		}
		verdicts, err := decide(hook, records[lo].NowMs, batch)
		if err != nil {
			return nil, err
		}
		if len(verdicts) != len(batch) {
			return nil, fmt.Errorf("%d verdicts for %d records", len(verdicts), len(batch))
		}
		all = append(all, verdicts...)
		lo = hi
	}
	return all, nil
}

func (r *Report) compare(name string, records []Record, got []Verdict, update bool) error {
	file := strings.TrimSuffix(name, recordsEnd) + verdictsEnd
	old, err := os.ReadFile(file)
	if err != nil && (!update || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	if update {
		var b bytes.Buffer
		if err := WriteVerdicts(&b, got); err != nil {
			return err
		}
		if old != nil && bytes.Equal(old, b.Bytes()) {
			return nil
		}
		r.Updated = append(r.Updated, file)
		return os.WriteFile(file, b.Bytes(), 0o666)
	}
	want, err := ReadVerdicts(bytes.NewReader(old))
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	for i := range max(len(got), len(want)) {
		d := Diff{File: name, Line: i + 1}
		if i < len(got) {
			d.Got, d.Record = got[i].String(), records[i]
		}
		if i < len(want) {
			d.Want = want[i].String()
		}
		if d.Got != d.Want {
			r.Diffs = append(r.Diffs, d)
		}
	}
	return nil
}
