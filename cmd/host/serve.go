package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// serveFlags are what serve takes.
type serveFlags struct {
	file        string
	stdinCloses bool
}

// serveKeys are the flags that stand for a key of the configuration.
var serveKeys = [...]struct{ flag, key, usage string }{
	{"data", "data_dir", "the data directory (required here or in the configuration)"},
	{"http", "listen.http", "the address to listen on; port 0 takes any free one (default 127.0.0.1:7070)"},
	{"levels", "timer.levels", "the table of delay levels, level 1 first (default: RocketMQ's 18, 1s to 2h)"},
	{"max-delay", "timer.max_delay", `how far ahead a message may be due, up to "100y" (default 7d)`},
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
A file (tidewheel config init makes one) and variables TIDEWHEEL_SECTION__KEY say the rest; flags count more than both.
It listens on loopback addresses only, since this version has no authentication.`,
		Example: `  tidewheel serve --data ./data
  tidewheel serve --data /var/lib/tidewheel --max-delay 1y --levels "1s 5s 10s 1m 1h 1d"
  tidewheel serve -c /etc/tidewheel/tidewheel.toml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadServeConfig(cmd, f.file)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if f.stdinCloses {
				ctx = a.untilStdinCloses(ctx)
			}
			return a.runServer(ctx, cfg)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "config", "c", "", "a TOML file; see tidewheel config docs")
	for _, k := range serveKeys {
		flags.String(k.flag, "", k.usage)
	}
	flags.BoolVar(&f.stdinCloses, "until-stdin-closes", false, "end when standard input does, as for a child process")
	_ = flags.MarkHidden("until-stdin-closes") // it fails only for a flag that is not there
	return cmd
}

// loadServeConfig reads the configuration: file, variables, and the flags that were given.
func loadServeConfig(cmd *cobra.Command, file string) (*config.Config, error) {
	src := config.Source{File: file, Environ: os.Environ()}
	for _, k := range serveKeys {
		if f := cmd.Flags().Lookup(k.flag); f.Changed {
			src.Flags = append(src.Flags, config.Flag{Name: "--" + k.flag, Key: k.key, Value: f.Value.String()})
		}
	}
	cfg, err := config.Load(src)
	if report := new(config.Report); errors.As(err, &report) {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	if err == nil && file == "" && !cmd.Flags().Changed("data") && os.Getenv("TIDEWHEEL_DATA_DIR") == "" {
		return nil, fmt.Errorf("%w: serve needs --data, the directory of the messages, or -c with a configuration", errUsage)
	}
	return cfg, err
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
func (a *app) runServer(ctx context.Context, cfg *config.Config) (err error) {
	log := slog.New(slog.NewTextHandler(a.stderr, nil))
	l, err := httpapi.Listen(cfg.Listen.HTTP)
	if err != nil {
		return err
	}
	// Serving closes it; this is for what fails before.
	defer l.Close()
	files, err := fsadapter.OpenRoot(cfg.DataDir)
	if err != nil {
		return err
	}
	b, err := broker.Open(broker.Env{FS: fsadapter.New(files), Log: log}, ".", cfg.Broker())
	if errors.Is(err, engine.ErrLocked) {
		return fmt.Errorf("%s is open in another process: stop that first, or use another directory: %w", cfg.DataDir, err)
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", cfg.DataDir, err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for _, t := range cfg.Topics {
		if err := b.DefineTopic(ctx, t.Name, t.Queues); err != nil {
			return fmt.Errorf("topic %s of the configuration: %w", t.Name, err)
		}
	}

	server := httpapi.NewServer(httpapi.Handler(b, httpapi.Options{}), log)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	if err := a.announce(cfg.DataDir, "http://"+l.Addr().String(), b); err != nil {
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
func (a *app) announce(data, url string, b *broker.Broker) error {
	dir, err := filepath.Abs(data)
	if err != nil {
		dir = data
	}
	if a.format != formatTable {
		return encode(a.stdout, serving{URL: url, Data: dir}, "")
	}
	_, err = fmt.Fprintf(a.stderr, `tidewheel serves %s
  data        %s, kept when the server ends
  durability  an answer leaves after fsync
  levels      %s
  max delay   %s
  try         tidewheel put orders '{"id":42}' --level 3 --url %s
`, url, dir, b.Levels(), config.Duration(b.MaxDelay()), url)
	return err
}
