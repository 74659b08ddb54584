package demo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Of a frame: the least columns it needs, its lines, and where things stand in a line. A line never fills the last
// column, where terminals differ in what comes next.
const (
	frameColumns = 80
	frameLines   = 6
	barLines     = 2 // the first ones, as far as the bar
	labelWidth   = 13
	barWidth     = aheadShown // the bar and the histogram end in the same column
)

// The colours, as numbers of ECMA-48.
const (
	dim    = "2"
	red    = "31"
	bold   = "1;31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// phaseColors are the colours of the phases.
var phaseColors = [...]string{Storing: cyan, Killed: bold, Recovering: yellow, Waiting: cyan, Checking: cyan, Done: green}

// paint colours text, or does not.
type paint bool

func (c paint) in(color, text string) string {
	if !c || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// label is the start of a line.
func (c paint) label(color, text string) string {
	return "  " + c.in(color, fmt.Sprintf("%-*s", labelWidth-2, text))
}

// frame draws a run in lines of less than frameColumns, the first of them empty:
//
//	storing    ████████████████████████                          50 %    5.3 s
//	pending    3,012    put 4,311 of 6,000   cancelled 120   moved 98
//	delivered  1,179    late by p50 0.6ms, p99 2.4ms, max 7.1ms   early 0
//	falls due  ▅▇█▅▃▂▂▂▂▁▂▁▁▁▁▁▁▂▃▃▂▂▁▁▁▁▁▁▁▁                    █ 120 in 250ms
//	           now     +2s     +4s     +6s     +8s     +10s
func frame(p Progress, c paint) []string {
	color := phaseColors[p.Phase]
	full := p.eighths()
	bar := strings.Repeat("█", full/8) + part(full%8)
	early := "early 0"
	if p.Early > 0 {
		early = c.in(red, "early "+thousands(p.Early))
	}
	late := "nothing came due yet"
	if p.Late.Count > 0 {
		late = fmt.Sprintf("late by p50 %v, p99 %v, max %v", p.Late.P50, p.Late.P99, p.Late.Max)
	}
	return []string{
		"",
		c.label(color, p.Phase.String()) + c.in(color, bar) + strings.Repeat(" ", barWidth-utf8.RuneCountInString(bar)) +
			fmt.Sprintf("  %3d %%  %5.1f s", p.percent(), p.Elapsed.Seconds()),
		c.label(dim, "pending") + fmt.Sprintf("%-7s  put %s of %s   cancelled %s   moved %s",
			thousands(p.Pending), thousands(p.Put), thousands(p.Events), thousands(p.Cancelled), thousands(p.Moved)),
		c.label(dim, "delivered") + fmt.Sprintf("%-7s  %s   %s", thousands(p.Delivered), late, early),
		c.label(dim, "falls due") + p.histogram(c),
		strings.Repeat(" ", labelWidth) + c.in(dim, p.Ahead.axis()),
	}
}

// brief is a run in one line of plain text, cut off at a width.
func brief(p Progress, width int) string {
	line := fmt.Sprintf("%-10s %3d %%  %5.1f s  pending %s  delivered %s  cancelled %s  moved %s", p.Phase, p.percent(), p.Elapsed.Seconds(),
		thousands(p.Pending), thousands(p.Delivered), thousands(p.Cancelled), thousands(p.Moved))
	return line[:min(len(line), max(width, 0))]
}

// share is how much of the run is done, of 1: every event has to be put, and then to be delivered or cancelled. It is all
// only when everything is checked.
func (p *Progress) share() float64 {
	if p.Phase == Done || p.Events == 0 {
		return 1
	}
	return min(float64(p.Put+p.Delivered+p.Cancelled)/float64(2*p.Events), 0.99)
}

func (p *Progress) percent() int { return int(p.share()*100 + 0.5) }

// eighths is the length of the bar in eighths of a column.
func (p *Progress) eighths() int { return int(p.share() * barWidth * 8) }

// part is a column that is full from the left by some eighths.
func part(eighths int) string {
	return [...]string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}[eighths]
}

// histogram draws what falls due ahead, with its scale; without a server it says what waits for one.
func (p *Progress) histogram(c paint) string {
	a := &p.Ahead
	if a.Counts == nil {
		return c.in(dim, "the server has not said yet")
	}
	most := slices.Max(a.Counts)
	var b strings.Builder
	for _, n := range a.Counts {
		b.WriteString(column(n, most))
	}
	bars, scale := b.String(), ""
	if most > 0 {
		scale = fmt.Sprintf("  █ %s in %v", thousands(int(most)), a.Step)
	}
	if p.Phase == Killed || p.Phase == Recovering {
		return c.in(dim, bars) + "  " + c.in(bold, thousands(int(a.Overdue))+" overdue")
	}
	return c.in(cyan, bars) + c.in(dim, scale)
}

// column draws a count in eighths of the height. What is there is seen, however small its part is.
func column(n, most int64) string {
	if n <= 0 {
		return " "
	}
	eighths := max(int(float64(n)/float64(most)*8+0.5), 1)
	return string([]rune("▁▂▃▄▅▆▇█")[min(eighths, 8)-1])
}

// axis names the times under the histogram.
func (a *Ahead) axis() string {
	const every = 8 // columns
	line := fmt.Sprintf("%-*s", every, "now")
	for at := every; at < aheadShown; at += every {
		after := strconv.FormatFloat((time.Duration(at) * a.Step).Seconds(), 'g', -1, 64)
		line += fmt.Sprintf("%-*s", every, "+"+after+"s")
	}
	return strings.TrimRight(line, " ")
}
