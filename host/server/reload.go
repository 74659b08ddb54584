package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/plugins"
)

// Reloaded says what a Reload did: keys of the configuration, in the order of its reference.
type Reloaded struct {
	Applied []string // are in force now
	Restart []string // have changed, and take effect when the server starts again
	Read    []string // name files that were read again, and count
}

// Reload takes over what can change in a running server. Files that are named in the configuration are read again, whether
// their names have changed or not. What fails is in the error, the rest is done; a topic that could not be made is tried again
// by the next Reload.
func (s *Server) Reload(ctx context.Context, next *config.Config) (Reloaded, error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	s.tell("STATUS=Reading the configuration again")
	defer s.tell("STATUS=Serving " + s.URL())
	var r Reloaded
	r.Applied, r.Restart = s.cfg.Changed(next)
	s.keepDeliveries(ctx, next)
	errs := []error{s.store.plugins.Reconfigure(ctx, next), s.store.b.Rehook(ctx)}
	r.Applied = without(r.Applied, errs[0])
	errs = append(errs, s.store.deliveries.Configure(s.store.plugins.Deliveries()), s.defineTopics(ctx, next))
	for _, f := range s.namedFiles() {
		err := f.reload()
		errs = append(errs, err)
		if err == nil {
			r.Read = append(r.Read, f.key)
		}
	}
	if s.opts.Level != nil {
		s.opts.Level.Set(next.Logging.Slog())
	}
	now := s.cfg.With(next)
	s.mu.Lock()
	s.cfg = now
	s.mu.Unlock()
	setMemory(now)
	return r, errors.Join(errs...)
}

// without is a list of keys without those of plugins that could not be loaded.
func without(applied []string, err error) []string {
	list, _ := err.(interface{ Unwrap() []error })
	if list == nil {
		return applied
	}
	for _, err := range list.Unwrap() {
		if load := new(plugins.LoadError); errors.As(err, &load) {
			applied = slices.DeleteFunc(applied, func(key string) bool { return key == "plugin."+load.Plugin })
		}
	}
	return applied
}

// keepDeliveries ends what delivers and is gone in the next configuration, while its plugin is still there to judge the answers.
func (s *Server) keepDeliveries(ctx context.Context, next *config.Config) {
	ctx, cancel := context.WithTimeout(ctx, StopTime)
	defer cancel()
	s.store.deliveries.Keep(ctx, next)
}

// defineTopics makes the topics that are new, or different, or could not be made before.
func (s *Server) defineTopics(ctx context.Context, next *config.Config) error {
	changed := s.cfg.ChangedTopics(next)
	var errs []error
	var missed []string
	for _, t := range next.Topics {
		if !slices.Contains(changed, t) && !slices.Contains(s.missed, t.Name) {
			continue
		}
		if err := s.store.b.DefineTopic(ctx, t.Name, t.Queues); err != nil {
			errs = append(errs, fmt.Errorf("server: topic %s: %w", t.Name, err))
			missed = append(missed, t.Name)
		}
	}
	s.missed = missed
	return errors.Join(errs...)
}

// namedFile is what the server has read from files that the configuration names.
type namedFile struct {
	key    string
	reload func() error
}

func (s *Server) namedFiles() []namedFile {
	var files []namedFile
	if s.api.Tokens != nil {
		files = append(files, namedFile{"auth.tokens_file", s.api.Tokens.Reload})
	}
	if s.api.Certificate != nil {
		files = append(files, namedFile{"listen.tls_cert", s.api.Certificate.Reload})
	}
	return files
}
