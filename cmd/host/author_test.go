package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
