package config

import (
	"fmt"
	"strings"
)

const templateHead = `# Configuration of a tidewheel server: tidewheel serve -c FILE

# Every key stands here with its default, behind a "#". To change one, remove the "#" in front of it. A file that is
# empty, or not there, is a good configuration, too. "tidewheel config docs" explains more.
`

// templateWidth is where comments are broken.
const templateWidth = 100

// Template is a configuration file with every key in it: a comment, and the default, commented out. Parsed as it is, it
// changes nothing.
func Template() string {
	var b strings.Builder
	b.WriteString(templateHead)
	t := schema()
	templateKeys(&b, t)
	templateTables(&b, t, "")
	return b.String()
}

// templateTables writes the tables of a table; those of a list stand behind a "#", which is lead.
func templateTables(b *strings.Builder, t *table, lead string) {
	for _, s := range t.tables {
		b.WriteByte('\n')
		b.WriteString(wrap(s.doc, "# ", templateWidth))
		below := lead
		if s.list {
			below = "#"
			fmt.Fprintf(b, "#[[%s]]\n", s.name)
		} else {
			fmt.Fprintf(b, "%s[%s]\n", lead, s.name)
		}
		templateKeys(b, s)
		templateTables(b, s, below)
	}
}

func templateKeys(b *strings.Builder, t *table) {
	for _, k := range t.keys {
		text := k.doc
		if k.auto != "" {
			text += " auto: " + k.auto + "."
		}
		def := k.def
		if k.required {
			def = k.example
		}
		if k.min != "" || len(k.words) > 0 {
			text += " Allowed: " + k.allowed() + "."
		}
		b.WriteByte('\n')
		b.WriteString(wrap(text, "# ", templateWidth))
		word := k.word
		if k.kind == kindSecret {
			word += fileSuffix
		}
		fmt.Fprintf(b, "#%s = %s\n", word, k.literal(def))
	}
}

// wrap breaks text into lines that begin with lead.
func wrap(text, lead string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		switch {
		case column == 0:
			b.WriteString(lead)
			column = len(lead)
		case column+1+len(word) > width:
			b.WriteString("\n" + lead)
			column = len(lead)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	if column > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}
