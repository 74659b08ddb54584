package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/pluginhost"
)

// local is a broker in this process.
type local struct {
	b       *broker.Broker
	plugins *pluginhost.Host // nil: none
}

// close closes the store, and then the plugins that decide for it.
func (l *local) close() error {
	err := l.b.Close()
	if l.plugins != nil {
		err = errors.Join(err, l.plugins.Close())
	}
	return err
}

// openLocal opens a store as a server would.
func openLocal(dir string, opts broker.Options, log *slog.Logger) (*local, error) {
	root, err := fsadapter.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	b, err := broker.Open(broker.Env{FS: fsadapter.New(root), Log: log}, ".", opts)
	if err != nil {
		return nil, err
	}
	return &local{b: b}, nil
}

func (l *local) define(ctx context.Context, topic string) error {
	return l.b.DefineTopic(ctx, topic, queuesOf)
}

func (l *local) pending(context.Context) (int, error) {
	s, err := l.b.Stats()
	return int(s.Pending), err
}

func (l *local) waiting(ctx context.Context, topic string) (int, error) {
	n := 0
	for page := ""; ; {
		p, err := l.b.TimersPage(ctx, engine.Filter{Topic: topic}, page, 1000)
		if err != nil {
			return n, err
		}
		n += len(p.Messages)
		if page = p.Next; page == "" {
			return n, nil
		}
	}
}

// localSender reuses what it hands to the broker.
type localSender struct {
	b        *broker.Broker
	topic    string
	nonce    string
	size     int
	bodies   []byte
	messages []broker.Message
}

func (l *local) sender(topic, nonce string, body int) (sender, error) {
	return &localSender{b: l.b, topic: topic, nonce: nonce, size: body}, nil
}

func (s *localSender) close() {}

func (s *localSender) send(ctx context.Context, letters []letter) error {
	if need := len(letters) * s.size; len(s.bodies) < need {
		s.bodies = make([]byte, need)
		for i := range s.bodies {
			s.bodies[i] = '.'
		}
	}
	s.messages = s.messages[:0]
	for i, l := range letters {
		body := s.bodies[i*s.size : (i+1)*s.size]
		appendBody(body[:0], s.nonce, l)
		m := broker.Message{Topic: s.topic, Body: body}
		if l.dueMs != 0 {
			m.At = broker.At(l.dueMs)
		}
		s.messages = append(s.messages, m)
	}
	receipts, err := s.b.PutBatch(ctx, s.messages)
	if err != nil {
		return err
	}
	for i := range receipts {
		if receipts[i].Err != nil {
			return fmt.Errorf("bench: refused: %w", receipts[i].Err)
		}
	}
	return nil
}

// localReader reads from places that it keeps itself.
type localReader struct {
	b      *broker.Broker
	topic  string
	from   []broker.QueueOffset
	pulled broker.Pulled
}

func (l *local) reader(topic string, queue int) reader {
	r := &localReader{b: l.b, topic: topic}
	for q := range queuesOf {
		if queue < 0 || queue == q {
			r.from = append(r.from, broker.QueueOffset{Queue: q})
		}
	}
	return r
}

func (r *localReader) read(ctx context.Context, wait time.Duration, see func([]byte) error) (int, error) {
	err := r.b.Pull(ctx, broker.PullRequest{Topic: r.topic, From: r.from, MaxCount: broker.MaxPull, Wait: wait}, &r.pulled)
	if err != nil {
		return 0, err
	}
	n := 0
	for i := range r.pulled.Queues {
		q := &r.pulled.Queues[i]
		for j := range q.Messages {
			if err := q.Messages[j].Err; err != nil {
				return n, err
			}
			if err := see(q.Messages[j].Body); err != nil {
				return n, err
			}
			n++
		}
		for k := range r.from {
			if r.from[k].Queue == q.Queue {
				r.from[k].Offset = q.Next
			}
		}
	}
	return n, nil
}
