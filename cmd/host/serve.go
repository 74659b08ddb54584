package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// serveFlags are what serve takes.
type serveFlags struct {
	data, http  string
	levels      string
	stdinCloses bool
}

// serving says on standard output where a server listens, with -o json.
type serving struct {
	URL  string `json:"url"`
	Data string `json:"data"`
}

// stopTime is how long requests may go on when the server is told to end. The broker needs some time, too, and all of
// it has to end within 5 s.
const stopTime = 2 * time.Second

func (a *app) serve() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a server",
		Long: `Run a server on a data directory, which is made if it is missing. An answer leaves when it is durable (fsync).
SIGTERM or Ctrl-C ends it within 5 s: what was taken is finished, waiting readers are sent away.
It listens on loopback addresses only, since this version has no authentication.`,
		Example: `  tidewheel serve --data ./data
  tidewheel serve --data /var/lib/tidewheel --http 127.0.0.1:7070 --levels "1s 5s 10s 1m 1h 1d"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.data == "" {
				return fmt.Errorf("%w: serve needs --data, the directory of the messages", errUsage)
			}
			ctx := cmd.Context()
			if f.stdinCloses {
				ctx = a.untilStdinCloses(ctx)
			}
			return a.runServer(ctx, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.data, "data", "", "the data directory (required)")
	flags.StringVar(&f.http, "http", "127.0.0.1:7070", "the address to listen on; port 0 takes any free one")
	flags.StringVar(&f.levels, "levels", "", "the table of delay levels, level 1 first (default: RocketMQ's 18, 1s to 2h)")
	flags.BoolVar(&f.stdinCloses, "until-stdin-closes", false, "end when standard input does, as for a child process")
	_ = flags.MarkHidden("until-stdin-closes") // it fails only for a flag that is not there
	return cmd
}

// untilStdinCloses is a context that ends with standard input. The goroutine lives as long as the process.
func (a *app) untilStdinCloses(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, a.stdin)
	}()
	return ctx
}

// runServer serves until the context ends.
func (a *app) runServer(ctx context.Context, f serveFlags) (err error) {
	log := slog.New(slog.NewTextHandler(a.stderr, nil))
	l, err := httpapi.Listen(f.http)
	if err != nil {
		return err
	}
	// Serving closes it; this is for what fails before.
	defer l.Close()
	files, err := fsadapter.OpenRoot(f.data)
	if err != nil {
		return err
	}
	b, err := broker.Open(broker.Env{FS: fsadapter.New(files), Log: log}, ".", broker.Options{
		Engine: engine.Options{Levels: f.levels},
	})
	if errors.Is(err, engine.ErrLocked) {
		return fmt.Errorf("%s is open in another process: stop that first, or use another directory: %w", f.data, err)
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", f.data, err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()

	server := httpapi.NewServer(httpapi.Handler(b, httpapi.Options{}), log)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	if err := a.announce(f, "http://"+l.Addr().String(), b); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	log.Info("stopping")
	grace, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		log.Warn("requests were cut off", "error", err)
		_ = server.Close() // it has been told already
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// announce says what is served where.
func (a *app) announce(f serveFlags, url string, b *broker.Broker) error {
	dir, err := filepath.Abs(f.data)
	if err != nil {
		dir = f.data
	}
	if a.format != formatTable {
		return encode(a.stdout, serving{URL: url, Data: dir}, "")
	}
	_, err = fmt.Fprintf(a.stderr, `tidewheel serves %s
  data        %s, kept when the server ends
  durability  an answer leaves after fsync
  levels      %s
  try         tidewheel put orders '{"id":42}' --level 3 --url %s
`, url, dir, b.Levels(), url)
	return err
}
