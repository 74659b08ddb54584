package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/delivery"
	"github.com/tidewheel/tidewheel/host/httpapi"
	"github.com/tidewheel/tidewheel/host/pluginhost"
)

// StopTime is how long requests may go on when the server ends. The broker needs some time after it, and all of it has to
// end within 5 s.
const StopTime = 2 * time.Second

// Options say what to run.
type Options struct {
	// Config is required. It is only read.
	Config *config.Config
	// Log hears of the server and of what is below it. Nil: silence.
	Log *slog.Logger
	// Level is the log's, for Reload to change. Nil: Reload does not.
	Level *slog.LevelVar
	// Clock is for tests by hand: messages are due by it, and POST /v1/dev/clock moves it. Nil: the machine's clock.
	Clock *broker.ManualClock
	// NotifySocket is where a service manager listens, as NOTIFY_SOCKET has it. Empty: there is none.
	NotifySocket string
}

// Server is a server from Listen on. Its methods are called in the order of the package comment; Reload, URL, Tokens and
// Broker are safe for concurrent use, also beside Serve.
type Server struct {
	// set by Listen, then read-only
	opts     Options
	log      *slog.Logger
	notify   notifier
	api      httpapi.Options
	listener net.Listener
	startup  *httpapi.Startup
	http     *http.Server
	served   chan error // what http.Server.Serve returned

	// set by Open, then read-only
	store store

	reloading sync.Mutex // one Reload at a time
	missed    []string   // topics that could not be made, guarded by reloading

	mu  sync.Mutex
	cfg *config.Config // guarded by mu; Listen and Open are before anything else
}

// Listen looks at the data directory, changes nothing in it, reads the files that the configuration names, and opens the
// address. It returns an error of kind ErrDirectory, of such a file, or of the network. What it returns has to be ended with
// Serve or Close.
func Listen(opts Options) (*Server, error) {
	s := &Server{
		opts: opts, log: opts.Log, notify: notifier{opts.NotifySocket}, cfg: opts.Config, served: make(chan error, 1),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.api.Clock = opts.Clock
	s.api.Settings = func() []config.Setting {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.cfg.Settings()
	}
	if err := checkDir(s.cfg.DataDir); err != nil {
		return nil, err
	}
	if err := s.readFiles(); err != nil {
		return nil, err
	}
	l, err := s.api.Listen(s.cfg.Listen.HTTP)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("server: %s is in use, perhaps by another server: choose another address: %w", s.cfg.Listen.HTTP, err)
	}
	if err != nil {
		return nil, err
	}
	s.listener = l
	s.startup = httpapi.NewStartup(s.api)
	s.http = httpapi.NewServer(s.startup, s.log)
	go func() { s.served <- s.http.Serve(l) }()
	return s, nil
}

// readFiles reads who may do what, and what TLS shows.
func (s *Server) readFiles() (err error) {
	if file := s.cfg.Auth.TokensFile; file != "" {
		if s.api.Tokens, err = httpapi.OpenTokens(file); err != nil {
			return err
		}
	}
	if file := s.cfg.Listen.TLSCert; file != "" {
		if s.api.Certificate, err = httpapi.OpenCertificate(file, s.cfg.Listen.TLSKey); err != nil {
			return err
		}
	}
	return nil
}

// URL is where the server is reached from this machine.
func (s *Server) URL() string {
	scheme := "http://"
	if s.api.Certificate != nil {
		scheme = "https://"
	}
	addr := s.listener.Addr().String()
	if host, port, err := net.SplitHostPort(addr); err == nil && net.ParseIP(host).IsUnspecified() {
		addr = net.JoinHostPort("localhost", port)
	}
	return scheme + addr
}

// Tokens is how many tokens there are; 0: everybody on this machine may do everything.
func (s *Server) Tokens() int {
	if s.api.Tokens == nil {
		return 0
	}
	return s.api.Tokens.Count()
}

// Broker is nil before Open has returned, and closed when Serve has.
func (s *Server) Broker() *broker.Broker { return s.store.b }

// Plugins are those that decide about the broker's messages: nil before Open has returned, and closed when Serve has.
func (s *Server) Plugins() *pluginhost.Host { return s.store.plugins }

// Open recovers the store and lets requests in. It returns an error of kind ErrDirectory, of a topic, or of the context;
// then the server is ended with Close. When the context ends first, the recovery goes on by itself and gives the directory
// up when it is done: the process may end before, nothing is lost by that.
func (s *Server) Open(ctx context.Context) error {
	setMemory(s.cfg)
	type opened struct {
		store store
		err   error
	}
	done := make(chan opened, 1)
	go func() {
		store, err := s.open(ctx)
		done <- opened{store, err}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return o.err
		}
		s.store = o.store
	case <-ctx.Done():
		go func() {
			if o := <-done; o.err == nil {
				_ = o.store.close() // nothing was put into it
			}
		}()
		return fmt.Errorf("server: ended while it was starting: %w", ctx.Err())
	}
	for _, t := range s.cfg.Topics {
		if err := s.store.b.DefineTopic(ctx, t.Name, t.Queues); err != nil {
			return fmt.Errorf("server: topic %s of the configuration: %w", t.Name, err)
		}
	}
	if err := s.store.deliveries.Configure(s.store.plugins.Deliveries()); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.api.Plugins, s.api.Deliveries = s.store.plugins, s.store.deliveries
	s.startup.Ready(httpapi.Handler(s.store.b, s.api))
	s.tell("READY=1\nSTATUS=Serving " + s.URL())
	return nil
}

// store is what Open opens.
type store struct {
	files      io.Closer
	plugins    *pluginhost.Host
	b          *broker.Broker
	deliveries *delivery.Fleet
}

// close gives up the directory. The plugins go after the broker that asks them, and what delivers before both.
func (s store) close() error {
	if s.b == nil {
		return nil
	}
	s.deliveries.Close(over)
	return errors.Join(s.b.Close(), s.plugins.Close(), s.files.Close())
}

// over is a context that has ended.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// open opens the store, and the plugins that decide about its messages before them.
func (s *Server) open(ctx context.Context) (store, error) {
	dir := s.cfg.DataDir
	files, err := fsadapter.OpenRoot(dir)
	if err != nil {
		return store{}, explain(dir, err)
	}
	closer, _ := files.(io.Closer)
	env := broker.Env{FS: fsadapter.New(files), Log: s.log}
	hosted := pluginhost.Options{Config: s.cfg, Log: s.log}
	if c := s.opts.Clock; c != nil {
		env.Wall, env.Mono, hosted.Now = c.Wall, c.Mono, c.Wall
	}
	if n := len(s.cfg.Plugins); n > 0 { // those that are not in the cache are compiled, which takes seconds
		s.tell(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\nSTATUS=Loading plugins, %d", time.Duration(30+10*n)*time.Second/time.Microsecond, n))
	}
	plugins, err := pluginhost.Open(ctx, hosted)
	if err != nil {
		return store{}, errors.Join(err, closer.Close())
	}
	opts := s.cfg.Broker()
	opts.Engine.Progress, opts.Hooks = s.progress(), plugins
	b, err := broker.Open(env, ".", opts)
	if err != nil {
		return store{}, errors.Join(explain(dir, err), plugins.Close(), closer.Close())
	}
	return store{closer, plugins, b, delivery.NewFleet(b, s.log)}, nil
}

// progressEvery is how often a recovery that takes long is told of.
const progressEvery = 2 * time.Second

// progress hears of a recovery, for /readyz, the log and the service manager.
func (s *Server) progress() func(done, total int64) {
	told := time.Now()
	return func(done, total int64) {
		s.startup.Progress(done, total)
		if time.Since(told) < progressEvery {
			return
		}
		told = time.Now()
		s.log.Info("recovering", "done_bytes", done, "total_bytes", total)
		s.tell(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\nSTATUS=Recovering, %d of %d bytes", (30 * time.Second).Microseconds(), done, total))
	}
}

// tell tells the service manager.
func (s *Server) tell(state string) {
	if err := s.notify.tell(state); err != nil {
		s.log.Warn("the service manager cannot be told", "error", err)
	}
}

// setMemory sets the soft limit of memory of the process. What the environment says counts more than what is worked out.
func setMemory(cfg *config.Config) {
	if cfg.MemoryLimit != 0 || os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(cfg.Memory())
	}
}

// Serve serves until the context ends or the network fails, and then ends the server in order. The error is that of serving
// or of closing the files; the end of the context is none.
func (s *Server) Serve(ctx context.Context) error {
	select {
	case err := <-s.served:
		return errors.Join(fmt.Errorf("server: %w", err), s.store.close())
	case <-ctx.Done():
	}
	began := time.Now()
	s.log.Info("stopping")
	s.tell("STOPPING=1\nSTATUS=Stopping")
	grace, cancel := context.WithTimeout(context.Background(), StopTime)
	defer cancel()
	var delivering sync.WaitGroup
	delivering.Go(func() { s.store.deliveries.Close(grace) })
	if err := s.http.Shutdown(grace); err != nil {
		s.log.Warn("requests were cut off", "error", err)
		_ = s.http.Close() // it has been told already
	}
	var failed error
	if err := <-s.served; !errors.Is(err, http.ErrServerClosed) {
		failed = fmt.Errorf("server: %w", err)
	}
	delivering.Wait()
	err := errors.Join(failed, s.store.close())
	s.log.Info("stopped", "took_ms", time.Since(began).Milliseconds())
	return err
}

// Close ends a server at once that is not served: after an error of Open.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.served
	return errors.Join(err, s.store.close())
}
