package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tidewheel/tidewheel/host/demo"
)

// TestMain makes this test binary the program too: a process that runs it by the name tidewheel is it.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tidewheel": main})
}

// TestScript runs the command line as a user would: testdata/script/*.txtar. Two commands are added to those of
// testscript: server DIR [ARG...] runs a server and sets TIDEWHEEL_URL, shutdown ends it, which must take less than 5 s.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server":   startServer,
			"shutdown": shutdown,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("TIDEWHEEL_URL", "http://127.0.0.1:1") // nobody listens there
			env.Values[serverKey{}] = new(*demo.Process)
			return nil
		},
		UpdateScripts: *update,
	})
}

// serverKey is where a script keeps its server.
type serverKey struct{}

func startServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: server DIR [ARG...]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	p, err := demo.Launch(ctx, program(), ts.MkAbs(args[0]), args[1:]...)
	ts.Check(err)
	ts.Defer(p.Kill)
	ts.Setenv("TIDEWHEEL_URL", p.URL)
	*ts.Value(serverKey{}).(**demo.Process) = p
}

func shutdown(ts *testscript.TestScript, neg bool, args []string) {
	p := *ts.Value(serverKey{}).(**demo.Process)
	if neg || len(args) != 0 || p == nil {
		ts.Fatalf("usage: shutdown, after server")
	}
	ts.Check(p.Stop(5 * time.Second))
}

// program is this test binary, which demo.Launch runs by the name tidewheel.
func program() string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exe
}
