package bench

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// remote is a server.
type remote struct {
	c     *client.Client
	base  *url.URL
	token string
}

func newRemote(base, token string) (*remote, error) {
	c, err := client.NewWith(base, client.Options{Token: token})
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return &remote{c, u, token}, nil
}

func (r *remote) define(ctx context.Context, topic string) error {
	_, err := r.c.DefineTopic(ctx, topic, queuesOf)
	return err
}

func (r *remote) pending(ctx context.Context) (int, error) {
	s, err := r.c.Status(ctx)
	return int(s.Pending), err
}

func (r *remote) waiting(ctx context.Context, topic string) (int, error) {
	n := 0
	for _, err := range r.c.Timers(ctx, client.List{Topic: topic, Limit: 1000}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (r *remote) sender(topic, nonce string, body int) (sender, error) {
	c, err := dial(r.base, r.token)
	if err != nil {
		return nil, err
	}
	return &remoteSender{conn: c, topic: topic, nonce: nonce, size: body}, nil
}

// remoteReader reads from places that it keeps itself.
type remoteReader struct {
	c     *client.Client
	topic string
	from  []httpapi.QueueOffset
}

func (r *remote) reader(topic string, queue int) reader {
	rr := &remoteReader{c: r.c, topic: topic}
	for q := range queuesOf {
		if queue < 0 || queue == q {
			rr.from = append(rr.from, httpapi.QueueOffset{Queue: q})
		}
	}
	return rr
}

func (r *remoteReader) read(ctx context.Context, wait time.Duration, see func([]byte) error) (int, error) {
	got, err := r.c.Pull(ctx, client.Pull{Topic: r.topic, From: r.from, Max: 1024, Wait: wait})
	if err != nil {
		return 0, err
	}
	for i := range got.Messages {
		m := &got.Messages[i]
		switch {
		case m.Problem != nil:
			return i, m.Problem
		case m.Body == nil:
			return i, errBody
		}
		if err := see([]byte(*m.Body)); err != nil {
			return i, err
		}
	}
	for _, next := range got.Next {
		for k := range r.from {
			if r.from[k].Queue == next.Queue {
				r.from[k].Offset = next.Offset
			}
		}
	}
	return len(got.Messages), nil
}
