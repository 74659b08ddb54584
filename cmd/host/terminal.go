package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// errRefused is the answer no to a question.
var errRefused = errors.New("nothing was done")

// isTerminal says whether a person is at the other end.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull) // a device, and nobody is there
	return err != nil || !os.SameFile(info, null)
}

// terminal says whether a person looks at standard output.
func (a *app) terminal() bool { return a.drawn || isTerminal(a.stdout) }

// careful are the flags of a verb that destroys.
type careful struct{ yes, dryRun bool }

func (c *careful) add(cmd *cobra.Command, dry string) {
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, dry)
}

// ask returns when the answer is yes. Whoever is no person has to say --yes.
func (a *app) ask(c *careful, question string) error {
	if c.yes {
		return nil
	}
	if !isTerminal(a.stdin) {
		return fmt.Errorf("%w: %s Say --yes when that is wanted, or --dry-run to see what it means", errUsage, question)
	}
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	line, err := bufio.NewReader(io.LimitReader(a.stdin, 1<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read standard input: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return errRefused
}

// meter shows on a terminal how far long work is, in one line on standard error; in a pipe it is silent. It is not safe
// for concurrent use.
type meter struct {
	w     io.Writer // nil: nobody looks
	what  string
	last  time.Time
	width int // of the line that stands there
}

// progressEvery is how often the line changes.
const progressEvery = 100 * time.Millisecond

func (a *app) meter(what string) *meter {
	if !isTerminal(a.stderr) {
		return &meter{}
	}
	return &meter{w: a.stderr, what: what}
}

// at says how much is done; a total of 0 is not known.
func (p *meter) at(done, total int64) {
	if p.w == nil || time.Since(p.last) < progressEvery {
		return
	}
	p.last = time.Now()
	line := fmt.Sprintf("%s %s", p.what, thousands(done))
	if total > 0 {
		line = fmt.Sprintf("%s %s of %s  %s %d %%", p.what, thousands(done), thousands(total), bar(done, total), done*100/total)
	}
	p.show(line)
}

// show replaces the line.
func (p *meter) show(line string) {
	n := utf8.RuneCountInString(line)
	fmt.Fprintf(p.w, "\r%s%s", line, strings.Repeat(" ", max(p.width-n, 0)))
	p.width = n
}

// end takes the line away.
func (p *meter) end() {
	if p.w == nil || p.width == 0 {
		return
	}
	p.show("")
	fmt.Fprint(p.w, "\r")
	p.width = 0
}

// thousands is a whole number for a person.
func thousands(n int64) string {
	s := fmt.Sprintf("%d", n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count is a number of things.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}
