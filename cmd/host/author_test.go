package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tidewheel/tidewheel/host/demo"
)

// TestAuthorScript runs the verbs of plugins' authors as one of them would: testdata/author/*.txtar, in directories outside of
// this repository, with an empty module cache and without a network. A script that needs a compiler begins with [!exec:…] skip.
func TestAuthorScript(t *testing.T) {
	if testing.Short() {
		t.Skip("runs compilers")
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/author",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server":   startServer,
			"shutdown": shutdown,
		},
		Setup:         func(env *testscript.Env) error { return authorEnv(t, env) },
		UpdateScripts: *update,
	})
}

func authorEnv(t *testing.T, env *testscript.Env) error {
	env.Setenv("TIDEWHEEL_URL", "http://127.0.0.1:1") // nobody listens there
	env.Values[serverKey{}] = new(*demo.Process)
	env.Setenv("PROGRAM", tidewheelPath(env))
	for name, value := range authorVariables(t, env.WorkDir) {
		env.Setenv(name, value)
	}
	return nil
}

// tidewheelPath is the program in a script's PATH, for scripts that change it.
func tidewheelPath(env *testscript.Env) string {
	for _, dir := range filepath.SplitList(env.Getenv("PATH")) {
		if file := filepath.Join(dir, "tidewheel"); isFile(file) {
			return file
		}
	}
	return "tidewheel"
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// authorVariables are those of a machine with compilers and without a network. Compiled packages of the standard library are
// shared, because compiling them anew takes a minute.
func authorVariables(t *testing.T, dir string) map[string]string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Skip("there is no go on the PATH")
	}
	return map[string]string{
		"GOCACHE": strings.TrimSpace(string(out)), "GOPROXY": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local", "GOMODCACHE": filepath.Join(dir, "modcache"),
		"XDG_CACHE_HOME": filepath.Join(dir, "cache"), "LocalAppData": filepath.Join(dir, "cache"), "HOME": os.Getenv("HOME"),
	}
}

// TestFirstPlugin runs the commands of the README's section, as they stand there: from nothing to a server that asks the plugin.
// The quickstart of plugins has the same.
func TestFirstPlugin(t *testing.T) {
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("runs a compiler, and a shell")
	}
	section := regexp.MustCompile(`(?s)\n## Your first plugin\n(.*?)\n## `).FindStringSubmatch(readDoc(t, "README.md"))
	if section == nil {
		t.Fatal("README.md has no section about the first plugin")
	}
	var lines []string
	for _, m := range regexp.MustCompile(`(?m)^    (.+)$`).FindAllStringSubmatch(section[1], -1) {
		line, _, _ := strings.Cut(m[1], " # ")
		lines = append(lines, strings.TrimSpace(line))
	}
	if len(lines) != 8 || !strings.HasSuffix(lines[4], " &") {
		t.Fatalf("these are not five commands and three more: %q", lines)
	}
	page := readDoc(t, "docs/plugins/quickstart.md")
	for _, line := range lines {
		if !strings.Contains(page, "\n    "+strings.TrimSuffix(line, " &")) {
			t.Errorf("docs/plugins/quickstart.md lacks %q", line)
		}
	}
	sh := newShell(t)
	sh.run(strings.Join(lines[:4], "\n"))
	stop := sh.serve(strings.TrimSuffix(lines[4], " &"))
	defer stop()
	if got := sh.run(strings.Join(lines[5:], "\n")); !strings.Contains(got, "two tickets") || strings.Contains(got, "win a prize") {
		t.Errorf("consumed:\n%s", got)
	}
	if got := sh.run("tidewheel plugin ls"); !strings.Contains(got, "spam-filter") {
		t.Errorf("plugin ls:\n%s", got)
	}
	if err := stop(); err != nil {
		t.Errorf("the server ended with %v\n%s", err, sh.said.String())
	}
	sh.dir = filepath.Join(sh.dir, "spam-filter")
	if got := sh.run("tidewheel plugin verify --data ../data --config ../tidewheel.toml"); !strings.Contains(got, "asked again  2: all agree") {
		t.Errorf("verify:\n%s", got)
	}
}

// shell runs lines in a directory of its own, with this program as tidewheel and a port for its server.
type shell struct {
	t    *testing.T
	dir  string
	env  []string
	said bytes.Buffer // by the server
}

func newShell(t *testing.T) *shell {
	t.Helper()
	s := &shell{t: t, dir: t.TempDir()}
	bin := t.TempDir()
	if err := os.Symlink(program(), filepath.Join(bin, "tidewheel")); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"TIDEWHEEL_LISTEN__HTTP="+address, "TIDEWHEEL_URL=http://"+address)
	for name, value := range authorVariables(t, t.TempDir()) {
		s.env = append(s.env, name+"="+value)
	}
	return s
}

// command runs in the directory of the plugin once it is there: the README's second line goes there.
func (s *shell) command(text string) *exec.Cmd {
	cmd := exec.Command("sh", "-ec", text)
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

func (s *shell) run(text string) string {
	s.t.Helper()
	out, err := s.command(text).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s\n%v\n%s", text, err, out)
	}
	return string(out)
}

// serve starts a server, waits until it answers, and returns what ends it; the second call does nothing.
func (s *shell) serve(line string) func() error {
	s.t.Helper()
	cmd := s.command("cd spam-filter && exec " + line)
	cmd.Stdout, cmd.Stderr = &s.said, &s.said
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	if out, err := s.command("for i in $(seq 600); do tidewheel stats && exit 0; sleep 0.1; done; exit 1").CombinedOutput(); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		s.t.Fatalf("%s: it does not answer:\n%s\n%s", line, s.said.String(), out[max(0, len(out)-1000):])
	}
	done := false
	return func() error {
		if done {
			return nil
		}
		done = true
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		return cmd.Wait()
	}
}
