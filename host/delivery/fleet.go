package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/egress"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// Fleet is a worker for each plugin of a server that delivers:
//
//  1. NewFleet makes it without any.
//  2. Configure, as often as wanted, starts workers of new plugins, ends those of plugins that are gone, and does both for one
//     whose table has changed: the new one begins while the old one ends what is on its way.
//  3. Keep, before plugins are removed from their host, ends the workers of those, which need them to judge what is on its way.
//  4. Close ends all of them, before the broker and the plugins are closed.
//
// Safe for concurrent use.
type Fleet struct {
	b   Broker
	log *slog.Logger

	mu     sync.Mutex
	ships  map[string]*ship // by plugin, guarded by mu
	closed bool             // guarded by mu

	over   context.Context // ends when workers that were replaced are to cancel what is on its way
	stop   context.CancelFunc
	ending sync.WaitGroup // workers that were replaced
}

// ship is a worker and what it was made of.
type ship struct {
	plugin *current
	table  config.PluginTable
	ca     []byte // content of the file of certificates
	client *egress.Client
	worker *Worker
}

// current is a plugin whose place in the host may change while a worker has it.
type current struct {
	atomic.Pointer[pluginhost.Delivery]
}

// Decide asks the one of the moment.
func (c *current) Decide(ctx context.Context, call plugins.Call, records []abi.Record, a *plugins.Answer) error {
	return c.Load().Decide(ctx, call, records, a)
}

// NewFleet returns a fleet whose workers read from b.
func NewFleet(b Broker, log *slog.Logger) *Fleet {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f := &Fleet{b: b, log: log, ships: map[string]*ship{}}
	f.over, f.stop = context.WithCancel(context.Background())
	return f
}

// Configure makes the workers those of the plugins that are given. The error names each plugin whose file of certificates or
// secrets cannot be used: if it has a worker, that goes on as it was.
func (f *Fleet) Configure(all []*pluginhost.Delivery) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return broker.ErrClosed
	}
	var errs []error
	wanted := map[string]bool{}
	for _, d := range all {
		wanted[d.Name] = true
		if err := f.settle(d); err != nil {
			errs = append(errs, fmt.Errorf("delivery: plugin %s: %w", d.Name, err))
		}
	}
	for name, s := range f.ships {
		if !wanted[name] {
			delete(f.ships, name)
			f.retire(s)
		}
	}
	return errors.Join(errs...)
}

// Keep ends the workers of plugins that a configuration does not have, and waits for them. What is on its way goes on until ctx
// ends, and is sent again then if the plugin is ever back.
func (f *Fleet) Keep(ctx context.Context, next *config.Config) {
	wanted := map[string]bool{}
	for i := range next.Plugins {
		wanted[next.Plugins[i].Name] = slices.Contains(next.Plugins[i].Hooks, "deliver")
	}
	var ending sync.WaitGroup
	f.mu.Lock()
	for name, s := range f.ships {
		if !wanted[name] {
			delete(f.ships, name)
			ending.Go(func() { s.end(ctx) })
		}
	}
	f.mu.Unlock()
	ending.Wait()
}

// settle makes one plugin's worker what its table says. The caller holds mu.
func (f *Fleet) settle(d *pluginhost.Delivery) error {
	var ca []byte
	if name := d.Table.Delivery.CAFile; name != "" {
		var err error
		if ca, err = os.ReadFile(name); err != nil {
			return fmt.Errorf("ca_file: %w", err)
		}
	}
	before := f.ships[d.Name]
	if before != nil && reflect.DeepEqual(before.table, d.Table) && bytes.Equal(before.ca, ca) {
		before.plugin.Store(d)
		return nil
	}
	s, err := f.launch(d, ca)
	if err != nil {
		return err
	}
	f.ships[d.Name] = s
	if before != nil {
		f.retire(before)
	}
	return nil
}

// launch starts a worker.
func (f *Fleet) launch(d *pluginhost.Delivery, ca []byte) (*ship, error) {
	t := &d.Table
	o, err := options(t, ca)
	if err != nil {
		return nil, err
	}
	s := &ship{plugin: &current{}, table: d.Table, ca: ca, client: egress.New(o)}
	s.plugin.Store(d)
	c := Config{
		Name: d.Name, Group: t.Group(), Broker: f.b, Plugin: s.plugin, Client: s.client, Record: record,
		Match:       func(topic string) bool { return s.plugin.Load().Wants(topic) },
		Policy:      pluginhost.Spec(t).Policy,
		Concurrency: t.Delivery.Concurrency, Timeout: o.Timeout, MaxAttempts: t.Delivery.MaxAttempts, Log: f.log,
	}
	if text := t.Delivery.SigningSecrets.Reveal(); text != "" {
		if c.Secrets, err = egress.ParseSecrets(text); err != nil {
			return nil, fmt.Errorf("signing_secrets: %w", err)
		}
	}
	s.worker = Start(c)
	return s, nil
}

// options are what a plugin's table says of its requests.
func options(t *config.PluginTable, ca []byte) (egress.Options, error) {
	o := egress.Options{
		Timeout:    time.Duration(t.Delivery.Timeout),
		MaxRequest: int(t.Delivery.MaxRequest), MaxResponse: int(t.Delivery.MaxResponse),
		Conns: t.Delivery.Concurrency, UserAgent: "tidewheel",
	}
	if o.MaxResponse == 0 {
		o.MaxResponse = egress.NoBody
	}
	for _, text := range t.Capabilities.Egress {
		r, err := egress.ParseRule(text)
		if err != nil {
			return o, err
		}
		o.Allow = append(o.Allow, r)
	}
	for _, text := range t.Capabilities.PrivateAddresses {
		p, err := egress.ParsePrivate(text)
		if err != nil {
			return o, err
		}
		o.Private = append(o.Private, p)
	}
	if ca != nil {
		roots, err := egress.Roots(ca)
		if err != nil {
			return o, fmt.Errorf("ca_file: %w", err)
		}
		o.Roots = roots
	}
	return o, nil
}

// record is what a plugin sees of a message: the attempt is that of the delivery, and the id that of the first copy.
func record(d *broker.Delivery, r *abi.Record) {
	pluginhost.Record(r, d.Lease.Topic, &d.Message, nil)
	r.Attempt = uint32(d.Attempt)
	if _, first, ok := strings.Cut(d.ID, "-"); ok {
		if id, err := strconv.ParseUint(first, 16, 64); err == nil {
			r.ID = id
		}
	}
}

// retire ends a worker in the background: what is on its way has its time.
func (f *Fleet) retire(s *ship) {
	f.ending.Go(func() {
		ctx, cancel := context.WithTimeout(f.over, time.Duration(s.table.Delivery.Timeout))
		defer cancel()
		s.end(ctx)
	})
}

func (s *ship) end(ctx context.Context) {
	s.worker.Close(ctx)
	s.client.Close()
}

// Stats are those of each worker, by plugin.
func (f *Fleet) Stats() []Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Stats
	for _, name := range slices.Sorted(maps.Keys(f.ships)) {
		all = append(all, f.ships[name].worker.Stats())
	}
	return all
}

// Close ends all workers; what is on its way goes on until ctx ends. See Worker.Close.
func (f *Fleet) Close(ctx context.Context) {
	f.mu.Lock()
	f.closed = true
	ships := f.ships
	f.ships = nil
	f.mu.Unlock()
	defer context.AfterFunc(ctx, f.stop)()
	var ending sync.WaitGroup
	for _, s := range ships {
		ending.Go(func() { s.end(ctx) })
	}
	ending.Wait()
	f.ending.Wait()
	f.stop()
}
