package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/host/server"
)

// serveFlags are what serve and dev take beside the keys of the configuration.
type serveFlags struct {
	file        string
	stdinCloses bool
}

// keyFlag is a flag that stands for a key of the configuration.
type keyFlag struct{ flag, key, usage string }

// commonKeys are the flags of serve and dev, dataKey is that of serve.
var (
	dataKey    = keyFlag{"data", "data_dir", "the data directory (required here or in the configuration)"}
	commonKeys = [...]keyFlag{
		{"http", "listen.http", "the address to listen on; port 0 takes any free one (default 127.0.0.1:7070)"},
		{"levels", "timer.levels", "the table of delay levels, level 1 first (default: RocketMQ's 18, 1s to 2h)"},
		{"max-delay", "timer.max_delay", `how far ahead a message may be due, up to "100y" (default 7d)`},
	}
)

// serving says on standard output where a server listens, with -o json.
type serving struct {
	URL  string `json:"url"`
	Data string `json:"data"`
}

func (a *app) serve() *cobra.Command {
	var f serveFlags
	keys := append([]keyFlag{dataKey}, commonKeys[:]...)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a server",
		Long: `Run a server on a data directory, which is made if it is missing. An answer leaves when it is durable (fsync).
SIGTERM or Ctrl-C ends it within 5 s: what was taken is finished, waiting readers are sent away.
A file (tidewheel config init makes one) and variables TIDEWHEEL_SECTION__KEY say the rest; flags count more than both.
SIGHUP reads them again: what can change while it runs is taken over, and the log says what cannot.
It listens on 127.0.0.1 unless told otherwise; an address that other machines can reach takes tokens and TLS.
/readyz answers 503 with how far it is while it starts, and 200 from then on.`,
		Example: `  tidewheel serve --data ./data
  tidewheel serve --data /var/lib/tidewheel --max-delay 1y --levels "1s 5s 10s 1m 1h 1d"
  tidewheel serve -c /etc/tidewheel/tidewheel.toml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			load := func() (*config.Config, error) { return loadServeConfig(cmd, f.file, keys) }
			cfg, err := load()
			if err != nil {
				return err
			}
			noDir := f.file == "" && !cmd.Flags().Changed(dataKey.flag) && os.Getenv("TIDEWHEEL_DATA_DIR") == ""
			if noDir {
				return fmt.Errorf("%w: serve needs --data, the directory of the messages, or -c with a configuration", errUsage)
			}
			ctx := cmd.Context()
			if f.stdinCloses {
				ctx = a.untilStdinCloses(ctx)
			}
			s := session{a: a, cfg: cfg, load: load, fate: "kept when the server ends"}
			return s.run(ctx)
		},
	}
	serverFlags(cmd, &f, keys)
	return cmd
}

// serverFlags gives a verb the flags of a server.
func serverFlags(cmd *cobra.Command, f *serveFlags, keys []keyFlag) {
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "config", "c", "", "a TOML file; see tidewheel config docs")
	for _, k := range keys {
		flags.String(k.flag, "", k.usage)
	}
	flags.BoolVar(&f.stdinCloses, "until-stdin-closes", false, "end when standard input does, as for a child process")
	_ = flags.MarkHidden("until-stdin-closes") // it fails only for a flag that is not there
}

// loadServeConfig reads the configuration: file, variables, and the flags that were given; more counts most.
func loadServeConfig(cmd *cobra.Command, file string, keys []keyFlag, more ...config.Flag) (*config.Config, error) {
	src := config.Source{File: file, Environ: os.Environ()}
	for _, k := range keys {
		if f := cmd.Flags().Lookup(k.flag); f.Changed {
			src.Flags = append(src.Flags, config.Flag{Name: "--" + k.flag, Key: k.key, Value: f.Value.String()})
		}
	}
	src.Flags = append(src.Flags, more...)
	cfg, err := config.Load(src)
	if report := new(config.Report); errors.As(err, &report) {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
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

// session is one run of a server in the terminal.
type session struct {
	a    *app
	cfg  *config.Config
	load func() (*config.Config, error) // again, for SIGHUP
	opts server.Options                 // beyond the configuration and the log
	fate string                         // of the data, for the banner
	note [][2]string                    // more lines of the banner: a word and its text
}

// run serves until the context ends.
func (s *session) run(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP) // before anything, since it ends a process that does not expect it
	defer signal.Stop(hup)
	log, level := server.NewLog(s.a.stderr, s.cfg)
	s.opts.Config, s.opts.Log, s.opts.Level = s.cfg, log, level
	s.opts.NotifySocket = os.Getenv("NOTIFY_SOCKET")
	srv, err := server.Listen(s.opts)
	if err != nil {
		return err
	}
	if err := srv.Open(ctx); err != nil {
		closed := srv.Close()
		if ctx.Err() != nil {
			log.Info("stopped while it was starting")
			return closed
		}
		return errors.Join(err, closed)
	}
	if err := s.announce(srv, log); err != nil {
		return errors.Join(err, srv.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-hup:
				s.reload(ctx, srv, log)
			case <-ctx.Done():
				return
			}
		}
	}()
	err = srv.Serve(ctx)
	cancel()
	<-done
	return err
}

// reload takes over what has changed in the configuration.
func (s *session) reload(ctx context.Context, srv *server.Server, log *slog.Logger) {
	next, err := s.load()
	if err != nil {
		log.Error("the configuration was not read again; nothing has changed", "error", text(err))
		return
	}
	r, err := srv.Reload(ctx, next)
	if err != nil {
		log.Error("a part of the configuration could not be taken over", "error", err)
	}
	log.Info("the configuration was read again", "applied", strings.Join(r.Applied, " "),
		"needs_restart", strings.Join(r.Restart, " "), "files_read", strings.Join(r.Read, " "))
}

// announce says what is served where: as a line for a program, in the log when that is for programs, or as a banner.
func (s *session) announce(srv *server.Server, log *slog.Logger) error {
	dir, err := filepath.Abs(s.cfg.DataDir)
	if err != nil {
		dir = s.cfg.DataDir
	}
	b := srv.Broker()
	st, err := b.Stats()
	if err != nil {
		return err
	}
	limit := config.Duration(b.MaxDelay()).String()
	if s.cfg.Logging.Format == "json" {
		log.Info("serving", "url", srv.URL(), "data", dir, "durability", s.cfg.Durability, "max_delay", limit,
			"levels", b.Levels(), "pending", st.Pending, "memory_limit", config.Size(s.cfg.Memory()).String(),
			"plugins", len(srv.Plugins().Plugins()), "attention", strings.Join(srv.Plugins().Attention(), "; "))
	}
	if s.a.format != formatTable {
		return encode(s.a.stdout, serving{URL: srv.URL(), Data: dir}, "")
	}
	if s.cfg.Logging.Format == "json" {
		return nil
	}
	w := s.a.stderr
	fmt.Fprintf(w, "tidewheel serves %s\n", srv.URL())
	for _, row := range append([][2]string{
		{"data", dir + ", " + s.fate},
		{"durability", durability(s.cfg)},
		{"waiting", count(st.Pending, "message", "messages") + " in " + count(int64(st.Topics), "topic", "topics")},
		{"levels", b.Levels()},
		{"max delay", limit},
		{"access", access(srv, s.cfg)},
	}, append(pluginNotes(srv), s.note...)...) {
		fmt.Fprintf(w, "  %-10s  %s\n", row[0], row[1])
	}
	if s.cfg.Auth.TokensFile != "" || s.cfg.Listen.TLSCert != "" {
		return nil
	}
	_, err = fmt.Fprintf(w, "  %-10s  tidewheel put orders '{\"id\":42}' --in 10s --url %s\n", "try", srv.URL())
	return err
}

// pluginNotes are lines of the banner: one with the plugins that decide, and one for each that does not.
func pluginNotes(srv *server.Server) [][2]string {
	var names []string
	for _, v := range srv.Plugins().Plugins() {
		if v.State != pluginhost.StateFailed {
			names = append(names, v.Table.Name+" ("+strings.Join(v.Table.Hooks, ", ")+")")
		}
	}
	var notes [][2]string
	if len(names) > 0 {
		notes = append(notes, [2]string{"plugins", strings.Join(names, ", ")})
	}
	for _, text := range srv.Plugins().Attention() {
		notes = append(notes, [2]string{"ATTENTION", text})
	}
	return notes
}

// durability says when a producer is answered.
func durability(cfg *config.Config) string {
	if cfg.Durability == "always" {
		return "an answer leaves after fsync"
	}
	return fmt.Sprintf("INTERVAL: a power cut may take back the last %v of what was answered", cfg.SyncInterval)
}

// access says who may do what.
func access(srv *server.Server, cfg *config.Config) string {
	who := "everybody on this machine"
	if cfg.Auth.TokensFile != "" {
		who = fmt.Sprintf("who has a token of %s (%d)", cfg.Auth.TokensFile, srv.Tokens())
	}
	if cfg.Listen.TLSCert != "" {
		who += ", over TLS"
	}
	return who
}
