package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

const root = "../../"

func readDoc(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(root + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestGuaranteesNameTests: each promise names tests, and each of them is there.
func TestGuaranteesNameTests(t *testing.T) {
	name := regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)\\w+)`")
	for i, promise := range strings.Split(readDoc(t, "docs/guarantees.md"), "\n## ")[1:] {
		found := name.FindAllStringSubmatch(promise, -1)
		if len(found) == 0 {
			t.Errorf("promise %d names no test", i+1)
		}
		for _, m := range found {
			if !hasTest(t, m[1], m[2]) {
				t.Errorf("promise %d: %s has no test %s", i+1, m[1], m[2])
			}
		}
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(root + dir + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}

// TestLimitsAreTheCodes compares the page with what the server says and the code has.
func TestLimitsAreTheCodes(t *testing.T) {
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	api := httpapi.Handler(b, httpapi.Options{})
	get := func(path string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
		r.Host = "localhost"
		api.ServeHTTP(w, r)
		return w
	}
	var l httpapi.Limits
	if err := json.Unmarshal(get("/v1/limits").Body.Bytes(), &l); err != nil {
		t.Fatal(err)
	}
	def := config.Default()
	page := readDoc(t, "docs/limits.md")
	for _, row := range []string{
		"body of a message | " + config.Size(l.BodyBytes).String(),
		"properties of a message, encoded | " + config.Size(l.PropertyBytes).String(),
		fmt.Sprintf("key | %d bytes", l.KeyBytes),
		fmt.Sprintf("tag | %d bytes", l.TagBytes),
		fmt.Sprintf("name of a topic | %d bytes", l.TopicNameBytes),
		fmt.Sprintf("name of a group | %d bytes", message.MaxGroup),
		"how far ahead a due time may lie | " + l.MaxDelay,
		fmt.Sprintf("delay levels | %d", len(strings.Fields(l.Levels))),
		fmt.Sprintf("%d at most |\n| lanes", schedule.MaxLevels),
		"queues of a topic | " + commas(record.MaxQueues),
		fmt.Sprintf("lanes | %d ", def.Timer.Lanes),
		"an envelope or a batch | " + config.Size(l.RequestBytes).String(),
		"messages of a batch | " + commas(l.MessagesBatch),
		"messages of one read | " + commas(l.MessagesPull),
		"wait of one read | " + config.Duration(time.Duration(l.WaitMs)*time.Millisecond).String(),
		"messages of one page of a list | " + commas(l.TimersPage),
		"requests that wait for the writer | " + config.Size(def.Broker().QueueBytes).String(),
		"log that is written and not durable | " + config.Size(def.Broker().UnsyncedBytes).String(),
	} {
		if !strings.Contains(page, row) {
			t.Errorf("docs/limits.md lacks %q", row)
		}
	}
	for steps, status := range map[int]int{10_000: 200, 10_001: 422} {
		if w := get(fmt.Sprintf("/v1/horizon?from=@0&to=@%d&step=1s", steps*1000)); w.Code != status {
			t.Errorf("a horizon of %d steps: %d %s", steps, w.Code, w.Body)
		}
	}
	if !strings.Contains(page, "steps of a horizon | 10,000") {
		t.Error("docs/limits.md lacks the steps of a horizon")
	}
}

func commas(n int) string {
	s := strconv.Itoa(n)
	if len(s) > 3 {
		s = s[:len(s)-3] + "," + s[len(s)-3:]
	}
	return s
}

// TestFailureCodes: each code on the page is one that the server answers.
func TestFailureCodes(t *testing.T) {
	var source strings.Builder
	files, err := filepath.Glob(root + "host/httpapi/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(b)
	}
	codes := regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(readDoc(t, "docs/failure-modes.md"), -1)
	if len(codes) == 0 {
		t.Error("there are no codes")
	}
	for _, m := range codes {
		if !strings.Contains(source.String(), `"`+m[1]+`"`) && !strings.Contains(source.String(), `"`+m[1]+`,omitempty"`) {
			t.Errorf("docs/failure-modes.md: the server has no %s", m[1])
		}
	}
}

// TestDocsCommands: each command that the pages show is one, with flags that it has.
func TestDocsCommands(t *testing.T) {
	a := &app{stdout: io.Discard, stderr: io.Discard}
	verb := regexp.MustCompile("(?m)(?:^ +(?:\\./)?|^\\$ |`)tidewheel ([^`\n#&|<]+)")
	pages := []string{root + "README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/plugins/*.md", "examples/wasm/*.md", "examples/wasm/*/*.md"} {
		more, err := filepath.Glob(root + pattern)
		if err != nil || len(more) == 0 {
			t.Fatalf("%s: %v, %v", pattern, more, err)
		}
		pages = append(pages, more...)
	}
	seen := 0
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range verb.FindAllStringSubmatch(string(b), -1) {
			seen++
			if err := isCommand(a.root(), strings.Fields(m[1])); err != nil {
				t.Errorf("%s: tidewheel %s: %v", filepath.Base(page), m[1], err)
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d commands were found: the pattern is wrong", seen)
	}
}

func isCommand(root *cobra.Command, args []string) error {
	if args[0] == "help" {
		return nil
	}
	cmd, _, err := root.Find(args)
	if err != nil {
		return err
	}
	if cmd == root {
		return fmt.Errorf("there is no verb %q", args[0])
	}
	for _, arg := range args {
		name, long := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		if long && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
			return fmt.Errorf("there is no flag %s", arg)
		}
	}
	return nil
}
