package golden

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the longest line that is read, in bytes.
const MaxLine = 8 << 20

// line writes a value as JSON on one line, without its end and without the escapes that HTML needs.
func line(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("golden: " + err.Error()) // strings, numbers and JSON that was checked are always written
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// ReadRecords reads a file of records to its end. An error says in which line.
func ReadRecords(r io.Reader) ([]Record, error) {
	var all []Record
	err := eachLine(r, func(text []byte) error {
		record, err := ParseRecord(text)
		all = append(all, record)
		return err
	})
	return all, err
}

// ParseRecord reads one line of a file of records.
func ParseRecord(text []byte) (Record, error) {
	var l recordLine
	if err := decode(text, &l); err != nil {
		return Record{}, err
	}
	return l.record()
}

// ReadVerdicts reads a file of verdicts to its end. An error says in which line.
func ReadVerdicts(r io.Reader) ([]Verdict, error) {
	var all []Verdict
	err := eachLine(r, func(text []byte) error {
		var l verdictLine
		if err := decode(text, &l); err != nil {
			return err
		}
		v, err := l.verdict()
		all = append(all, v)
		return err
	})
	return all, err
}

// WriteVerdicts writes a file of verdicts.
func WriteVerdicts(w io.Writer, verdicts []Verdict) error {
	for _, v := range verdicts {
		if _, err := w.Write(append(line(v.line()), '\n')); err != nil {
			return err
		}
	}
	return nil
}

func eachLine(r io.Reader, take func(text []byte) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, MaxLine)
	n := 0
	for s.Scan() {
		n++
		text := bytes.TrimSpace(s.Bytes())
		if len(text) == 0 {
			continue
		}
		if err := take(text); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	return nil
}

func decode(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON object")
	}
	return nil
}
