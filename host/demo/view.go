package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Screen is a terminal.
type Screen struct {
	W io.Writer
	// Size is how many columns and rows it has now; 0 is not known.
	Size func() (columns, rows int)
	// NoColor leaves colours out.
	NoColor bool
	// Plain leaves all control sequences out: one line is all there is.
	Plain bool
}

// View shows a run on a terminal: a few lines that are drawn again in place, and above them lines that stay. On a small
// terminal it is one line. Errors of the writer are ignored: nobody is there to be told. It is safe for concurrent use.
type View struct {
	screen Screen

	mu    sync.Mutex
	last  Progress // of the last Show
	lines []int    // columns of each line of the frame that stands there, with the cursor below them
	brief int      // columns of the one line that stands there instead, with the cursor at its start
}

// NewView is a view that shows nothing yet.
func NewView(s Screen) *View { return &View{screen: s} }

// Show draws how it goes, instead of what it drew before.
func (v *View) Show(p Progress) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last = p
	v.draw("")
}

// Say prints a line that stays, above what changes.
func (v *View) Say(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.draw(line)
}

// End takes away what changes. Of a run that is done the bar stays. The cursor is at the start of a line then.
func (v *View) End() {
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := 0
	if v.last.Phase == Done {
		lines = barLines
	}
	b := v.home()
	v.screenful(b, lines)
	if v.brief > 0 {
		b.WriteString("\n")
	}
	if lines > 0 {
		b.WriteString("\n")
	}
	v.lines, v.brief, v.last = nil, 0, Progress{}
	_, _ = io.WriteString(v.screen.W, b.String())
}

// draw writes it all at once, and over what stands there, so that nothing flickers: first a line that stays, below it what
// changes. The caller holds mu.
func (v *View) draw(stays string) {
	b := v.home()
	if stays != "" {
		b.WriteString(stays + v.restOfLine() + "\n")
	}
	lines := 0
	if v.last.Phase != 0 {
		lines = frameLines
	}
	v.screenful(b, lines)
	_, _ = io.WriteString(v.screen.W, b.String())
}

// size is the screen's, or that of every terminal there ever was.
func (v *View) size() (columns, rows int) {
	columns, rows = v.screen.Size()
	if columns <= 0 || rows <= 0 {
		return frameColumns, 24
	}
	return columns, rows
}

// home goes to where the last screenful begins. A terminal that has become narrower since has broken its lines.
func (v *View) home() *strings.Builder {
	var b strings.Builder
	columns, _ := v.size()
	if rows := rowsOf(v.lines, columns); rows > 0 {
		fmt.Fprintf(&b, "\r\x1b[%dA", rows) // keys that were pressed may have moved the cursor
	}
	if v.brief > 0 {
		fmt.Fprintf(&b, "%s\r", strings.Repeat(" ", v.brief))
	}
	return &b
}

// rowsOf is how many rows lines take that are so wide.
func rowsOf(lines []int, columns int) int {
	rows := 0
	for _, width := range lines {
		rows += max((width+columns-1)/columns, 1)
	}
	return rows
}

// restOfLine and restOfScreen clear what the last screenful left behind the cursor.
func (v *View) restOfLine() string   { return v.rest("\x1b[K") }
func (v *View) restOfScreen() string { return v.rest("\x1b[J") }

func (v *View) rest(sequence string) string {
	if len(v.lines) == 0 {
		return ""
	}
	return sequence
}

// screenful draws the first lines of the frame over the last one, or the one line if there is no room for a frame.
func (v *View) screenful(b *strings.Builder, lines int) {
	columns, rows := v.size()
	if v.screen.Plain || columns < frameColumns || rows < frameLines+2 {
		b.WriteString(v.restOfScreen())
		line := ""
		if lines > 0 {
			line = brief(v.last, columns-1)
		}
		b.WriteString(line)
		if line != "" {
			b.WriteString("\r")
		}
		v.lines, v.brief = nil, len(line)
		return
	}
	var widths []int
	plain := frame(v.last, false)
	for i, line := range frame(v.last, paint(!v.screen.NoColor))[:lines] {
		b.WriteString(line + v.restOfLine() + "\n")
		widths = append(widths, utf8.RuneCountInString(plain[i]))
	}
	b.WriteString(v.restOfScreen())
	v.lines, v.brief = widths, 0
}
