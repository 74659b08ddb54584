package httpapi

import (
	"errors"
	"io"

	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/config"
)

var statusRoutes = []route{
	{
		method: "GET", pattern: "/v1/status", id: "status", group: "Server", role: RoleRead,
		summary: "Counts, and where the log stands", gives: jsonOf[Status](), handle: (*API).status,
	},
	{
		method: "GET", pattern: "/v1/limits", id: "limits", group: "Server", role: RoleRead,
		summary: "What is refused", gives: jsonOf[Limits](), handle: (*API).limits,
	},
	{
		method: "GET", pattern: "/v1/time", id: "time", group: "Server", role: RoleRead,
		summary: "The server's clock, with which due times are compared", gives: jsonOf[ServerTime](), handle: (*API).time,
	},
	{
		method: "GET", pattern: "/metrics", id: "metrics", group: "Server", role: RoleRead,
		summary: "Metrics for Prometheus", gives: []content{{plainMedia, nil, "the text format of Prometheus"}},
		handle: (*API).metrics,
	},
	{
		method: "GET", pattern: "/healthz", id: "healthz", group: "Server",
		summary: "Whether the process runs", gives: []content{{plainMedia, nil, "ok"}}, early: true, handle: (*API).healthy,
	},
	{
		method: "GET", pattern: "/readyz", id: "readyz", group: "Server",
		summary: "Whether messages are taken", gives: []content{{plainMedia, nil, "ok"}},
		problems: []string{"closing", "failed", "recovering"}, early: true, handle: (*API).ready,
	},
}

// time tells the clock.
func (a *API) time(c *call) error {
	now := a.b.NowMs()
	return c.answer(ServerTime{Now: instantText(now), NowMs: now})
}

// healthy says that the process runs.
func (a *API) healthy(c *call) error {
	c.w.Header().Set("Content-Type", plainMedia)
	_, err := io.WriteString(c.w, "ok\n")
	return err
}

// ready says whether messages are taken.
func (a *API) ready(c *call) error {
	if a.drained.Err() != nil {
		return broker.ErrClosed
	}
	if err := a.b.Err(); err != nil {
		return err
	}
	return a.healthy(c)
}

// limits says what is refused.
func (a *API) limits(c *call) error {
	longest := a.b.MaxDelay()
	return c.answer(Limits{
		Levels: a.b.Levels(), MaxDelay: config.Duration(longest).String(), MaxDelayMs: longest.Milliseconds(),
		TimersPage: maxTimers, BodyBytes: message.MaxBody, RequestBytes: maxEnvelope,
		PropertyBytes: message.MaxProperties, KeyBytes: message.MaxKey, IdempotencyKeyBytes: message.MaxIdempotencyKey, TagBytes: message.MaxTag,
		MessagesPull: broker.MaxPull, MessagesBatch: maxBatch, WaitMs: broker.MaxWait.Milliseconds(),
		TopicNameBytes: message.MaxTopic,
	})
}

// The states of a server.
const (
	ServerReady   = "ready"
	ServerFailed  = "failed"  // a write failed: it reads, and stores nothing more
	ServerClosing = "closing" // it is stopping
)

// status counts.
func (a *API) status(c *call) error {
	s, err := a.b.Stats()
	if err != nil {
		return err
	}
	out := Status{
		State: ServerReady, NowMs: a.b.NowMs(), Pending: s.Pending, Dropped: s.Dropped, Topics: s.Topics, Groups: s.Groups,
		NotStoring: s.Full, NotDelivering: s.NotDelivering,
		Log: LogStatus{
			Head: Int64(s.Head), End: Int64(s.End), Durable: Int64(s.Durable), Checkpoint: Int64(s.Checkpoint), Bytes: s.LogBytes,
		},
		SinceStart: Counters{
			Batches: s.Batches, Delivered: s.Fired, Rolled: s.RolledMessages, Checkpoints: s.Checkpoints,
			ReplayedBytes: s.Replayed, JobFailures: s.JobFailures, LastJobError: s.LastJobError,
		},
		Broker: BrokerStatus{s.QueuedRequests, s.QueuedBytes, s.WaitingReaders},
	}
	if a.opts.Plugins != nil {
		out.Attention = a.opts.Plugins.Attention()
	}
	switch err := a.b.Err(); {
	case a.drained.Err() != nil, errors.Is(err, broker.ErrClosed):
		out.State = ServerClosing
	case err != nil:
		out.State, out.Problem = ServerFailed, asProblem(err)
	}
	return c.answer(out)
}

// Status is how the server is.
type Status struct {
	State   string   `json:"state" enum:"ready,failed,closing"`
	Problem *Problem `json:"problem,omitempty"`
	NowMs   int64    `json:"now_ms"`

	Pending int64 `json:"pending" doc:"messages that wait for their time"`
	Dropped int64 `json:"dropped" doc:"that fell due after their topic was deleted, ever"`
	Topics  int   `json:"topics"`
	Groups  int   `json:"groups"`

	NotStoring    string `json:"not_storing,omitempty" doc:"why new messages are refused"`
	NotDelivering string `json:"not_delivering,omitempty" doc:"what keeps due messages back"`

	Attention []string `json:"attention,omitempty" doc:"what else an operator has to know, as of plugins that do not run"`

	Log        LogStatus    `json:"log"`
	SinceStart Counters     `json:"since_start"`
	Broker     BrokerStatus `json:"broker"`
}

// LogStatus is where the log stands.
type LogStatus struct {
	Head       Int64 `json:"head"`
	End        Int64 `json:"end"`
	Durable    Int64 `json:"durable"`
	Checkpoint Int64 `json:"checkpoint" doc:"where a restart begins to read"`
	Bytes      int64 `json:"bytes" doc:"on disk"`
}

// Counters count since the server was started.
type Counters struct {
	Batches       int64  `json:"batches"`
	Delivered     int64  `json:"delivered"`
	Rolled        int64  `json:"rolled"`
	Checkpoints   int64  `json:"checkpoints"`
	ReplayedBytes int64  `json:"replayed_bytes" doc:"of log, at the start"`
	JobFailures   int64  `json:"job_failures"`
	LastJobError  string `json:"last_job_error,omitempty"`
}

// BrokerStatus is what waits.
type BrokerStatus struct {
	QueuedRequests int `json:"queued_requests"`
	QueuedBytes    int `json:"queued_bytes"`
	WaitingReaders int `json:"waiting_readers"`
}
