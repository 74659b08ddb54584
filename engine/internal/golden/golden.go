// Package golden compares encodings with the annotated hex files in testdata/golden, for tests. Such a file ties the
// diagram of a format to its code: when it changes, the format has, and a new version is due. go test -update writes the
// files.
package golden

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// Field is a run of bytes. One without a name is zero bytes, of which the file only tells how many. It is an alias, so
// that tables of fields need no keys.
type Field = struct {
	Width int
	Name  string
}

// Annotate is the text of a golden file: the title, then a line for each field, its hex digits padded to a column.
func Annotate(t testing.TB, title string, column int, b []byte, fields []Field) string {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n", title)
	for _, f := range fields {
		if f.Width > len(b) {
			t.Fatalf("%d bytes are left for %q of %d", len(b), f.Name, f.Width)
		}
		part := b[:f.Width]
		b = b[f.Width:]
		if f.Name != "" {
			fmt.Fprintf(&text, "%-*x # %s\n", column, part, f.Name)
			continue
		}
		if len(bytes.Trim(part, "\x00")) > 0 {
			t.Errorf("%d bytes before %x are not zero", f.Width, b[:min(len(b), 8)])
		}
		fmt.Fprintf(&text, "zeros %d\n", f.Width)
	}
	if len(b) > 0 {
		t.Errorf("%x is not described", b)
	}
	return text.String()
}

// Match compares a text with that of the golden file of a name, and returns the bytes that the file holds.
func Match(t testing.TB, name, text string) []byte {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, b := read(t, name)
	if text != want {
		t.Errorf("encoding changed; a new layout needs a new version. got:\n%s", text)
	}
	return b
}

// Check is Match for an encoding b and what Annotate says of it.
func Check(t testing.TB, name, title string, column int, b []byte, fields []Field) {
	t.Helper()
	if got := Match(t, name, Annotate(t, title, column, b, fields)); !bytes.Equal(got, b) {
		t.Errorf("%s: text and bytes of the golden file differ", name)
	}
}

// Read returns the bytes that a golden file holds.
func Read(t testing.TB, name string) []byte {
	t.Helper()
	_, b := read(t, name)
	return b
}

func path(name string) string { return filepath.Join("testdata", "golden", name+".hex") }

func read(t testing.TB, name string) (text string, b []byte) {
	t.Helper()
	file, err := os.ReadFile(path(name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		var zeros int
		if _, err := fmt.Sscanf(line, "zeros %d", &zeros); err == nil {
			b = append(b, make([]byte, zeros)...)
			continue
		}
		digits, _, _ := strings.Cut(line, "#")
		part, err := hex.DecodeString(strings.TrimSpace(digits))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b = append(b, part...)
	}
	return string(file), b
}
