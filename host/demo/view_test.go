package demo

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tidewheel/tidewheel/host/httpapi"
	"github.com/tidewheel/tidewheel/host/instant"
)

var update = flag.Bool("update", false, "write the files of testdata/golden again")

// golden compares text with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

const ms = Duration(time.Millisecond)

// story is a run at moments of it.
func story() []Progress {
	hill := make([]int64, aheadShown)
	for i := range hill {
		hill[i] = int64((aheadShown - i) * (aheadShown - i) / 20)
	}
	hill[3], hill[47] = 0, 1
	ahead := func(from int, overdue int64) Ahead {
		return Ahead{Step: aheadStep, Counts: append(append([]int64{}, hill[from:]...), make([]int64, from)...), Overdue: overdue}
	}
	late := Lateness{1179, ms * 6 / 10, ms * 24 / 10, ms * 71 / 10}
	return []Progress{
		{Phase: Storing, Events: 6000, Ahead: Ahead{Step: aheadStep}},
		{
			Phase: Storing, Events: 6000, Pending: 3012, Elapsed: 5300 * time.Millisecond, Late: late, Ahead: ahead(0, 0),
			Counts: Counts{Put: 4311, Cancelled: 120, Moved: 98, Delivered: 1179},
		},
		{
			Phase: Killed, Events: 6000, Pending: 3100, Elapsed: 6100 * time.Millisecond, Late: late, Ahead: ahead(3, 307),
			Counts: Counts{Put: 4411, Cancelled: 121, Moved: 99, Delivered: 1190},
		},
		{
			Phase: Recovering, Events: 6000, Pending: 3100, Elapsed: 6700 * time.Millisecond, Late: late, Ahead: ahead(5, 498),
			Counts: Counts{Put: 4411, Cancelled: 121, Moved: 99, Delivered: 1190},
		},
		{
			Phase: Waiting, Events: 6000, Pending: 77, Elapsed: 14700 * time.Millisecond, Late: late, Ahead: ahead(45, 0),
			Counts: Counts{Put: 6000, Cancelled: 741, Moved: 809, Delivered: 5182, Early: 1},
		},
		{
			Phase: Checking, Events: 6000, Elapsed: 20 * time.Second, Late: late, Ahead: ahead(48, 0),
			Counts: Counts{Put: 6000, Cancelled: 741, Moved: 809, Delivered: 5259},
		},
		{
			Phase: Done, Events: 6000, Elapsed: 20100 * time.Millisecond, Late: late, Ahead: ahead(48, 0),
			Counts: Counts{Put: 6000, Cancelled: 741, Moved: 809, Delivered: 5259},
		},
	}
}

func TestFrame(t *testing.T) {
	for name, c := range map[string]paint{"frames.txt": false, "frames_color.txt": true} {
		var b strings.Builder
		for _, p := range story() {
			lines := frame(p, c)
			if len(lines) != frameLines {
				t.Errorf("%v: %d lines", p.Phase, len(lines))
			}
			b.WriteString(strings.Join(lines, "\n") + "\n")
		}
		golden(t, name, strings.ReplaceAll(b.String(), "\x1b", "␛"))
	}
}

// However large the numbers of a demo are, no line needs a column more.
func TestFrameFits(t *testing.T) {
	for phase := Storing; phase <= Done; phase++ {
		p := Progress{
			Phase: phase, Events: 9999, Pending: 9999, Elapsed: 99 * time.Second, Late: Lateness{9999, 9999 * ms, 9999 * ms, 9999 * ms},
			Counts: Counts{Put: 9999, Cancelled: 9999, Moved: 9999, Delivered: 9999, Early: 9999},
			Ahead:  Ahead{Step: aheadStep, Counts: make([]int64, aheadShown), Overdue: 9999},
		}
		p.Ahead.Counts[0] = 9999
		for _, line := range frame(p, false) {
			if n := utf8.RuneCountInString(line); n >= frameColumns {
				t.Errorf("%v: %d columns: %s", phase, n, line)
			}
		}
	}
}

func TestColumn(t *testing.T) {
	before := -1
	for n := range int64(1001) {
		at := strings.Index(" ▁▂▃▄▅▆▇█", column(n, 1000))
		if at < before || (at == 0) != (n == 0) {
			t.Fatalf("%d of 1000 is %q, the one before was higher or none", n, column(n, 1000))
		}
		before = at
	}
	if got := column(1000, 1000); got != "█" {
		t.Errorf("the most is %q", got)
	}
}

// The steps are those of the moment it is drawn, not of the moment the server was asked.
func TestOutlook(t *testing.T) {
	var o outlook
	start := time.UnixMilli(1_000_000)
	if a := o.at(start); a.Counts != nil {
		t.Errorf("before the server was asked: %+v", a)
	}
	h := httpapi.Horizon{FromMs: 1_000_000, StepMs: aheadStep.Milliseconds(), Counts: make([]int64, aheadAsked)}
	for i := range h.Counts {
		h.Counts[i] = int64(i + 1)
	}
	o.newest.Store(&h)
	for _, c := range []struct {
		after       time.Duration
		first, last int64
		overdue     int64
	}{
		{0, 1, aheadShown, 0},
		{aheadStep - time.Millisecond, 1, aheadShown, 0},
		{aheadStep, 2, aheadShown + 1, 1},
		{3 * aheadStep, 4, aheadShown + 3, 1 + 2 + 3},
		{aheadAsked * aheadStep, 0, 0, aheadAsked * (aheadAsked + 1) / 2},
		{-time.Hour, 0, 0, 0}, // the clock was set
	} {
		a := o.at(start.Add(c.after))
		if a.Counts[0] != c.first || a.Counts[aheadShown-1] != c.last || a.Overdue != c.overdue {
			t.Errorf("after %v: first %d, last %d, overdue %d, want %+v", c.after, a.Counts[0], a.Counts[aheadShown-1], a.Overdue, c)
		}
	}
	h.Counts = nil // the server ends before it counts
	if a := o.at(start); len(a.Counts) != aheadShown {
		t.Errorf("of no counts: %+v", a)
	}
	// What is asked is of the grammar.
	q := horizonAhead(start)
	for _, at := range []string{q.From, q.To} {
		if _, err := instant.Parse(at, 0); err != nil {
			t.Error(err)
		}
	}
}

// terminal understands what a View writes, as a terminal would. It fails the test at anything else.
type terminal struct {
	t       *testing.T
	columns int
	rows    int
	lines   [][]rune
	row     int
	column  int
}

func (m *terminal) size() (columns, rows int) { return m.columns, m.rows }

func (m *terminal) Write(b []byte) (int, error) {
	m.t.Helper()
	text := string(b)
	for text != "" {
		for len(m.lines) <= m.row {
			m.lines = append(m.lines, nil)
		}
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		switch r {
		case '\r':
			m.column = 0
		case '\n':
			m.row, m.column = m.row+1, 0
		case '\x1b':
			end := strings.IndexAny(text, "AJKm")
			if end < 1 || text[0] != '[' {
				m.t.Fatalf("escape %q", text)
			}
			m.control(text[end], text[1:end])
			text = text[end+1:]
		default:
			if m.column == m.columns {
				m.row, m.column = m.row+1, 0
				m.lines = append(m.lines, nil)
			}
			line := m.lines[m.row]
			for len(line) <= m.column {
				line = append(line, ' ')
			}
			line[m.column] = r
			m.lines[m.row] = line
			m.column++
		}
	}
	return len(b), nil
}

func (m *terminal) control(kind byte, parameter string) {
	switch kind {
	case 'A':
		n, err := strconv.Atoi(parameter)
		if err != nil || n < 1 || n > m.row || n >= m.rows {
			m.t.Fatalf("up by %q from row %d of %d", parameter, m.row, m.rows)
		}
		m.row -= n
	case 'J':
		m.lines = m.lines[:m.row+1]
		fallthrough
	case 'K':
		m.lines[m.row] = m.lines[m.row][:min(m.column, len(m.lines[m.row]))]
	}
}

func (m *terminal) String() string {
	var b strings.Builder
	for _, line := range m.lines {
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return b.String()
}

// tell shows the story, with its kill.
func tell(v *View) {
	v.Say("6,000 events")
	for _, p := range story() {
		if p.Phase == Killed {
			v.Say(Kill{At: 6 * time.Second, Pending: 3100}.String())
		}
		v.Show(p)
		if p.Phase == Recovering {
			v.Say(Kill{At: 6 * time.Second, Down: 1643 * time.Millisecond, Recover: 438 * time.Millisecond}.String())
		}
	}
}

// What stands on the terminal in the end, and in the middle of it, is what stays and one frame.
func TestView(t *testing.T) {
	for _, c := range []struct {
		name          string
		columns, rows int
		plain         bool
	}{
		{"screen.txt", 80, 24, false},
		{"screen_narrow.txt", 60, 24, false},
		{"screen_narrow.txt", 60, 24, true},
		{"screen_low.txt", 100, 6, false},
	} {
		m := &terminal{t: t, columns: c.columns, rows: c.rows}
		v := NewView(Screen{W: m, Size: m.size, Plain: c.plain})
		tell(v)
		shown := m.String()
		v.End()
		fmt.Fprint(m, "the table\n")
		golden(t, c.name, shown+strings.Repeat("=", 79)+"\n"+m.String())
	}
}

// A run that fails leaves nothing behind but what stays.
func TestViewEndsEarly(t *testing.T) {
	for _, columns := range []int{60, 80} {
		m := &terminal{t: t, columns: columns, rows: 24}
		v := NewView(Screen{W: m, Size: m.size})
		v.Say("6,000 events")
		v.Show(story()[1])
		v.End()
		v.End()
		if got := m.String(); strings.TrimRight(got, "\n") != "6,000 events" {
			t.Errorf("%d columns: %q", columns, got)
		}
	}
}

// The size changes while it is shown: nothing of the other form stays.
func TestViewResize(t *testing.T) {
	m := &terminal{t: t, columns: 80, rows: 24}
	v := NewView(Screen{W: m, Size: m.size})
	p := story()[1]
	v.Show(p)
	full := m.String()
	m.rows = 7 // so low that there is one line only
	v.Show(p)
	if got := strings.TrimRight(m.String(), "\n"); got != strings.TrimRight(brief(p, 79), " ") {
		t.Errorf("low: %q", got)
	}
	m.rows = 24
	v.Show(p)
	if got := m.String(); got != full {
		t.Errorf("high again:\n%s\nwant\n%s", got, full)
	}
	// A terminal that became narrower has broken a line of 79 into two.
	if got := rowsOf([]int{0, 79, 40, 60}, 60); got != 5 {
		t.Errorf("rows: %d", got)
	}
}

// NO_COLOR takes colours away and nothing else; a plain screen gets no escape at all, and a size that isn't known is 80 × 24.
func TestViewEscapes(t *testing.T) {
	written := func(s Screen) string {
		var b bytes.Buffer
		s.W, s.Size = &b, func() (int, int) { return 0, 0 }
		v := NewView(s)
		tell(v)
		v.End()
		return b.String()
	}
	color, bare, plain := written(Screen{}), written(Screen{NoColor: true}), written(Screen{Plain: true})
	if !strings.Contains(color, "\x1b["+bold+"m") || !strings.Contains(color, "\x1b[6A") {
		t.Errorf("in colour: %q", color)
	}
	if regexp.MustCompile("\x1b\\[[0-9;]*m").MatchString(bare) || !strings.Contains(bare, "\x1b[6A") {
		t.Errorf("without colour: %q", bare)
	}
	if strings.Contains(plain, "\x1b") || !strings.Contains(plain, "\r") {
		t.Errorf("plain: %q", plain)
	}
}

func TestKillString(t *testing.T) {
	k := Kill{At: 6 * time.Second, Pending: 3100, Recover: time.Second}
	if got, want := k.String(), "kill -9 at 6.0 s, with 3,100 pending"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	k.Down = 1643 * time.Millisecond
	if got, want := k.String(), "ready again at 7.6 s, 1.643s after the kill, of that start and recovery 1s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Phase(9).String() + Phase(0).String() + Done.String(); got != "phase 9phase 0done" {
		t.Error(got)
	}
}
