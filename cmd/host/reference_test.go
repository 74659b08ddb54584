package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// referenceHead is what docs/cli.md says before the verbs.
const referenceHead = `# Command line

The pages of %[1]stidewheel help VERB%[1]s in one place. This file is made from the commands: %[1]sgo test ./cmd/host -run TestReference -update%[1]s.

**Output.** Results go to standard output, everything else to standard error. %[1]s-o%[1]s says how results are printed: %[1]stable%[1]s for
people, %[1]sjson%[1]s (one value), %[1]sndjson%[1]s (one line each), %[1]scsv%[1]s, or %[1]sname%[1]s: only what names a result, for xargs. With json and
ndjson an error is a problem in JSON, too. Verbs that read take %[1]s--columns%[1]s and %[1]s--watch[=2s]%[1]s. Long work shows how far it is
on a terminal and is quiet in a pipe.

**Times.** A TIME is the same everywhere: %[1]s+2h%[1]s or %[1]s7d12h%[1]s from now, RFC 3339 with its offset, %[1]s@1798131600123%[1]s (ms since 1970), or
in the zone of %[1]s--tz%[1]s: %[1]s"today 18:00"%[1]s, %[1]s"tomorrow 09:00"%[1]s, %[1]s"2026-12-24 18:00"%[1]s. A number without a unit is refused. Whatever changes
a time says the resolved one. Times are shown in UTC, or in the zone of %[1]s--tz%[1]s.

**Destroying.** Verbs that change or remove many things count exactly first, and ask. Without a terminal they need %[1]s--yes%[1]s;
%[1]s--dry-run%[1]s only counts.

**Server.** %[1]s--url%[1]s or TIDEWHEEL_URL says where it is, %[1]s--token-file%[1]s or TIDEWHEEL_TOKEN which bearer token goes along.
SSL_CERT_FILE names the certificate of an authority of your own.

| exit code | means |
|---|---|
| 0 | done |
| 1 | an error |
| 2 | the command line is wrong |
| 3 | not found |
| 4 | too late: it was delivered, moved or cancelled before |
| 5 | the server does not answer |
| 6 | stored data is damaged |
`

// TestReference: docs/cli.md is what the commands say of themselves.
func TestReference(t *testing.T) {
	t.Setenv("TIDEWHEEL_URL", "")
	a := &app{stdout: io.Discard, stderr: io.Discard}
	var b strings.Builder
	fmt.Fprintf(&b, referenceHead, "`")
	all := a.root()
	b.WriteString("\n| verb | does |\n|---|---|\n")
	eachVerb(all, func(cmd *cobra.Command) {
		fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", verbName(cmd), strings.ReplaceAll(cmd.CommandPath(), " ", "-"), cmd.Short)
	})
	eachVerb(all, func(cmd *cobra.Command) { verbReference(&b, cmd) })
	const page = "docs/cli.md"
	if *update {
		if err := os.WriteFile(root+page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got := readDoc(t, page); got != b.String() {
		t.Errorf("%s is not what the commands say: run this test with -update", page)
	}
}

// TestEveryVerbIsHelpful: each has a summary, an example, and flags that say what they do.
func TestEveryVerbIsHelpful(t *testing.T) {
	a := &app{stdout: io.Discard, stderr: io.Discard}
	eachVerb(a.root(), func(cmd *cobra.Command) {
		if cmd.Short == "" || cmd.Example == "" {
			t.Errorf("%s has no summary or no example", cmd.CommandPath())
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Usage == "" {
				t.Errorf("%s: --%s does not say what it does", cmd.CommandPath(), f.Name)
			}
		})
	})
}

// eachVerb goes over the verbs that do something.
func eachVerb(cmd *cobra.Command, do func(*cobra.Command)) {
	for _, sub := range cmd.Commands() {
		if sub.Hidden || sub.Name() == "help" {
			continue
		}
		if sub.HasSubCommands() {
			eachVerb(sub, do)
			continue
		}
		do(sub)
	}
}

func verbName(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), "tidewheel ")
}

func verbReference(w io.Writer, cmd *cobra.Command) {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	text = strings.TrimSpace(strings.ReplaceAll(text, timeHelp, ""))
	fmt.Fprintf(w, "\n## %s\n\n    %s\n\n%s\n", cmd.CommandPath(), cmd.UseLine(), text)
	if cmd.Example != "" {
		fmt.Fprintf(w, "\n%s\n", indented(cmd.Example))
	}
	head := "\n| flag | default | does |\n|---|---|---|\n"
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "url" || f.Name == "token-file" {
			return
		}
		name, def := "--"+f.Name, f.DefValue
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if def == "[]" || def == "" || def == "false" {
			def = " "
		}
		fmt.Fprintf(w, "%s| `%s` | %s | %s |\n", head, name, def, strings.ReplaceAll(f.Usage, "|", "\\|"))
		head = ""
	})
}

// indented makes a block of code of an example.
func indented(text string) string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		lines = append(lines, "    "+strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}
