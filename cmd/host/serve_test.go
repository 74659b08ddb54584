package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/host/client"
)

// stopLimit is how long SIGTERM may take.
const stopLimit = 5 * time.Second

// TestServeStopsInTime: told to end, a server does so within 5 s while many messages wait, producers put, and readers wait; what was
// answered is there the next time.
func TestServeStopsInTime(t *testing.T) {
	batches := 30
	if testing.Short() {
		batches = 5
	}
	dir := filepath.Join(t.TempDir(), "data")
	p, c := launch(t, dir)
	const batch = 5000
	for b := range batches {
		var lines bytes.Buffer
		for i := range batch {
			fmt.Fprintf(&lines, `{"topic":"orders","body":"x","delay":"%ds"}`+"\n", 3600+(b*batch+i)%100_000)
		}
		if _, err := c.PutBatch(t.Context(), lines.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	answered := make([]int, 8)
	for n := range answered {
		wg.Go(func() {
			for {
				if _, err := putOne(c, 100); err != nil {
					return
				}
				answered[n]++
			}
		})
		wg.Go(func() {
			_, _ = c.Pull(context.Background(), client.Pull{Topic: "orders", Group: "g", Wait: time.Minute})
		})
	}
	eventually(t, func() error {
		st, err := c.Status(t.Context())
		if err == nil && st.Pending < int64(batches*batch+100) {
			err = fmt.Errorf("%d wait", st.Pending)
		}
		return err
	})
	began := time.Now()
	if err := p.Stop(stopLimit); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d messages waited, it took %v", batches*batch, time.Since(began))
	wg.Wait()
	want := int64(batches * batch)
	for _, n := range answered {
		want += int64(n)
	}
	p, c = launch(t, dir)
	st, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// What was stored and not answered, one of each producer, may be there.
	if st.Pending < want || st.Pending > want+int64(len(answered)) {
		t.Errorf("%d wait, %d were answered", st.Pending, want)
	}
	if err := p.Stop(stopLimit); err != nil {
		t.Error(err)
	}
}

// TestReadmeCommands runs what the README shows in "Use it", line by line, as a reader would.
func TestReadmeCommands(t *testing.T) {
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not here: the commands of the README were not run", tool)
		}
	}
	_, section, _ := strings.Cut(readDoc(t, "README.md"), "\n## Use it\n")
	section, _, _ = strings.Cut(section, "\n## ")
	dir := t.TempDir()
	if err := os.Symlink(program(), filepath.Join(dir, "tidewheel")); err != nil {
		t.Skip(err)
	}
	url, handle, ran := "", "", 0
	for _, line := range regexp.MustCompile(`(?m)^    (.+)$`).FindAllStringSubmatch(section, -1) {
		command, _, _ := strings.Cut(line[1], "  #")
		command = strings.TrimSpace(command)
		background := strings.HasSuffix(command, "&")
		switch {
		case strings.HasPrefix(command, "go "):
			continue // this binary is the program
		case background:
			p, _ := launch(t, filepath.Join(dir, "data"))
			url = p.URL
			continue
		}
		command = strings.NewReplacer("HANDLE", handle, "localhost:7070", strings.TrimPrefix(url, "http://"),
			"--in 5s", "--in 1s", "wait=20s", "wait=1s").Replace(command)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TIDEWHEEL_URL="+url)
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil || bytes.Contains(out, []byte(`"type":"/problems/`)) {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
		if h := regexp.MustCompile(`tw1\.[A-Za-z0-9_-]+`).Find(out); h != nil {
			handle = string(h)
		}
		ran++
	}
	if url == "" || handle == "" || ran < 6 {
		t.Errorf("%d commands were run, at %q: the README has changed its form", ran, url)
	}
}

// eventually tries again for some seconds.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatal(err)
		case <-tick.C:
		}
	}
}
