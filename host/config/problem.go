package config

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Source string `json:"source"`         // a file, a variable or a flag
	Line   int    `json:"line,omitempty"` // of the file, from 1; 0: unknown, or no file
	Key    string `json:"key,omitempty"`  // "timer.max_delay"
	Text   string `json:"problem"`
}

// Where is the place of the problem: "tidewheel.toml:3", or the name of a variable or a flag.
func (p Problem) Where() string {
	if p.Line > 0 {
		return fmt.Sprintf("%s:%d", p.Source, p.Line)
	}
	return p.Source
}

// String is the problem in one line, as "tidewheel.toml:3: timer.max_dely: unknown key".
func (p Problem) String() string {
	if p.Key == "" {
		return p.Where() + ": " + p.Text
	}
	return p.Where() + ": " + p.Key + ": " + p.Text
}

// Report is the error of a configuration that can't be used. It has every problem: first the file's by line, then those
// of variables, then those of flags.
type Report struct{ Problems []Problem }

// Error has one line for each problem.
func (r *Report) Error() string {
	if len(r.Problems) == 1 {
		return "config: " + r.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "config: %d problems", len(r.Problems))
	for _, p := range r.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// didYouMean is a hint at the name that a misspelt one is nearest to, or empty.
func didYouMean(word string, names []string) string {
	if name := nearest(word, names); name != "" {
		return fmt.Sprintf("; did you mean %q?", name)
	}
	return ""
}

// nearest is the name with the smallest edit distance, or empty when none is near enough to be meant.
func nearest(word string, names []string) string {
	const longest = 64 // of a name of ours; what is longer is none of them
	if len(word) > longest {
		return ""
	}
	word = strings.ToLower(word)
	best, least := "", 1+max(1, len(word)/3)
	for _, name := range slices.Sorted(slices.Values(names)) {
		if d := distance(word, strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is how many insertions, deletions, replacements and swaps of neighbours make b of a, in bytes.
func distance(a, b string) int {
	rows := [3][]int{}
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	before, above, row := rows[0], rows[1], rows[2]
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
