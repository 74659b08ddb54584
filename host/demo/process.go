package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/internal/tail"
)

// Process is a server that runs as a child process.
type Process struct {
	URL   string        // where it listens
	Start time.Duration // from exec until it was ready for messages

	cmd    *exec.Cmd
	stdin  io.Closer
	stderr *tail.Buffer
	asked  atomic.Bool   // Kill or Stop was called
	ended  chan struct{} // closed when the process is gone
	err    error         // how it went; read after ended
}

// Launch starts "exe serve" on a directory, on any free port of 127.0.0.1, and waits until it is ready. The child ends
// by itself when this process does. Extra are further arguments.
func Launch(ctx context.Context, exe, dir string, extra ...string) (*Process, error) {
	began := time.Now()
	args := append([]string{"serve", "--data", dir, "--http", "127.0.0.1:0", "-o", "json", "--until-stdin-closes"}, extra...)
	p := &Process{cmd: exec.Command(exe, args...), stderr: new(tail.Buffer), ended: make(chan struct{})}
	p.cmd.Args[0] = "tidewheel" // a test binary is the program by that name only
	p.cmd.Stderr = p.stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	p.stdin = stdin
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("demo: start %s: %w", exe, err)
	}
	lines := make(chan []byte, 1)
	go func() {
		line, _ := bufio.NewReader(stdout).ReadBytes('\n')
		lines <- line
		_, _ = io.Copy(io.Discard, stdout)
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	if err := p.announced(ctx, lines); err != nil {
		p.Kill()
		return nil, err
	}
	p.Start = time.Since(began)
	return p, nil
}

// announced waits for the line that says where the server listens, and until it is ready.
func (p *Process) announced(ctx context.Context, lines <-chan []byte) error {
	var line []byte
	select {
	case line = <-lines:
	case <-ctx.Done():
		return fmt.Errorf("demo: the server did not start: %w: %s", ctx.Err(), p.stderr)
	}
	var said struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(line, &said); err != nil || said.URL == "" {
		return fmt.Errorf("demo: the server did not start: %s", p.stderr)
	}
	p.URL = said.URL
	c, err := client.New(p.URL)
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	if err := c.Ready(ctx); err != nil {
		return fmt.Errorf("demo: the server is not ready: %w: %s", err, p.stderr)
	}
	return nil
}

// Kill ends the process as SIGKILL does, without a word, and waits until it is gone.
func (p *Process) Kill() {
	p.asked.Store(true)
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.ended
	_ = p.stdin.Close()
}

// Stop asks the process to end, and kills it if it has not after the patience. The error says how it ended.
func (p *Process) Stop(patience time.Duration) error {
	p.asked.Store(true)
	_ = p.stdin.Close() // the server drains when it sees that
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		p.Kill()
		return fmt.Errorf("demo: the server did not stop within %v: %s", patience, p.stderr)
	}
	if p.err != nil {
		return fmt.Errorf("demo: the server stopped: %w: %s", p.err, p.stderr)
	}
	return nil
}

// Ended is closed when the process is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Failure says how a process that is gone ended by itself, with its last words; nil when it was asked to end.
func (p *Process) Failure() error {
	if p.asked.Load() {
		return nil
	}
	return errors.Join(fmt.Errorf("demo: the server ended by itself: %s", p.stderr), p.err)
}
