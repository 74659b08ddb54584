package config

import (
	"fmt"
	"strings"
)

// referenceHead explains what the tables of the reference do not.
const referenceHead = `<!-- Made by "tidewheel config docs" from the struct tags in host/config. Change those. -->

# Configuration

A server needs no configuration: every key has a default, and it listens on loopback only. To change something, write a
TOML file (` + "`tidewheel config init`" + ` makes one with every key and its default), set environment variables, or give flags. The
later one counts: file, variables, flags. ` + "`tidewheel config show`" + ` prints each value and where it comes from;
` + "`tidewheel config check FILE`" + ` prints every problem, each with its line.

**Durations** are whole numbers with the units y (365 days), w, d, h, m, s and ms, from long to short: ` + "`\"7d12h\"`" + `. **Sizes** have
one of the units B, KiB, MiB, GiB and TiB: ` + "`\"64MiB\"`" + `. Both stand in quotes; 0 needs no unit. An unknown key, a value without
its unit, and a value out of its range are refused, all of them in one report.

**Variables**: ` + "`TIDEWHEEL_SECTION__KEY`" + ` for a key in a table, ` + "`TIDEWHEEL_KEY`" + ` for one above all tables, as
` + "`TIDEWHEEL_TIMER__MAX_DELAY=30d`" + ` and ` + "`TIDEWHEEL_DATA_DIR=/srv/tidewheel`" + `. An unknown one is refused, but for
` + "`TIDEWHEEL_URL`, `_TOKEN`, `_CTX`, `_VOLUME` and `_SEED`" + `, which are no keys, and those that Kubernetes and Docker make for a
service called tidewheel. ` + "`TIDEWHEEL_SECRET_NAME`" + ` has a secret that a plugin's table asks for.

The last column says whether a change takes effect in a running server (live) or when it starts again (restart).
`

// Reference is the page of all keys, in Markdown, as docs/configuration.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	t := schema()
	referenceTable(&b, "Above all tables", t)
	referenceTables(&b, t)
	return b.String()
}

// referenceTables writes the tables of a table, each with those below it.
func referenceTables(b *strings.Builder, t *table) {
	for _, s := range t.tables {
		title := "[" + s.name + "]"
		if s.list {
			title = "[[" + s.name + "]]"
		}
		referenceTable(b, "`"+title+"`", s)
		referenceTables(b, s)
	}
}

func referenceTable(b *strings.Builder, title string, t *table) {
	fmt.Fprintf(b, "\n## %s\n\n", title)
	if t.doc != "" {
		fmt.Fprintf(b, "%s\n\n", t.doc)
	}
	b.WriteString("| key | default | allowed | what it does | change |\n|---|---|---|---|---|\n")
	for _, k := range t.keys {
		def, change := "`"+k.literal(k.def)+"`", "restart"
		if k.required {
			def = "must be given"
		}
		if k.live {
			change = "live"
		}
		text := k.doc
		if k.auto != "" {
			text += " auto: " + k.auto + "."
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", k.word, def, k.allowed(), strings.ReplaceAll(text, "|", `\|`), change)
	}
}
