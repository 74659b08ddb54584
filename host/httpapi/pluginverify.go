package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins"
)

// Bounds of one verification.
const (
	verifyTime = 20 * time.Second
	verifySlow = 10 * time.Second // that the last message may take beyond it
	verifyMost = 100_000
)

var verifyRoute = route{
	method: "POST", pattern: "/v1/plugins/{plugin}/verify", id: "verifyPlugin", group: "Plugins", role: RoleOperate,
	summary: "Ask a plugin again about what the log says it decided",
	text: "Compared are the verdicts in the log that have the digest of the file that decides now, as far as their messages are still " +
		"there. The file is asked in an instance of its own, so that serving is as before; for it memory_total needs memory_max beyond " +
		"what is configured. One plugin is verified at a time. The answer comes after limit verdicts, after 20 seconds, when the " +
		"configuration changes, or at the end of the log, and next says where to go on. A plugin that decides by the clock or by random numbers may differ, and so may one that was " +
		"asked behind another that changed the message.",
	params: []param{
		pluginParam,
		{in: inQuery, name: "from", text: "a position in the log, as next of the answer before; the oldest there is if absent"},
		{in: inQuery, name: "until", text: "a position in the log, as end of the first answer; its end now if absent"},
		{in: inQuery, name: "limit", kind: kindWhole, min: 1, max: verifyMost, def: "10000", text: "of verdicts"},
	},
	gives: jsonOf[PluginVerified](), problems: []string{"unknown_plugin", "plugin_not_loaded", "plugin_memory", "trimmed", "offset"}, waits: true,
	handle: (*API).verifyPlugin,
}

// PluginVerified is how a plugin decided again.
type PluginVerified struct {
	Digest      string             `json:"digest" doc:"SHA-256 of the file that was asked"`
	Verdicts    int64              `json:"verdicts" doc:"in the log, of this file"`
	Compared    int64              `json:"compared" doc:"of them, those that it was asked about again"`
	Gone        int64              `json:"gone" doc:"of them, those whose message is not there any more"`
	Other       int64              `json:"other" doc:"of them, those that can't be asked again: of deliveries and retries"`
	Differ      int64              `json:"differ" doc:"of those compared, how many are decided in another way now"`
	Differences []PluginDifference `json:"differences" doc:"the first 1,000 of them"`
	End         Int64              `json:"end" doc:"where in the log it was to end"`
	Next        *Int64             `json:"next,omitempty" doc:"where to go on; absent at the end"`
}

// PluginDifference is a verdict that a plugin does not give again.
type PluginDifference struct {
	Topic  string `json:"topic"`
	Queue  int    `json:"queue"`
	Offset Int64  `json:"offset" doc:"of the message where it was decided: in the topic, or in its stage"`
	Key    string `json:"key,omitempty"`
	Logged string `json:"logged" doc:"the action and its code, as in the log"`
	Again  string `json:"again" doc:"the action and its code now"`
}

// verifyPlugin compares.
func (a *API) verifyPlugin(c *call) error {
	q := c.query()
	v := pluginhost.Verification{Limit: q.number("limit"), Until: q.place("until"), Time: verifyTime}
	v.From = q.place("from")
	if q.err != nil {
		return q.err
	}
	if v.From == 0 {
		v.From = broker.EventsFromFirst
	}
	deadline(http.NewResponseController(c.w).SetWriteDeadline, verifyTime+verifySlow+answerTime)
	ctx, cancel := both(c.ctx(), a.drained)
	defer cancel()
	err := a.withPlugin(c, func(h *pluginhost.Host, name string) error {
		if _, err := h.Plugin(name); err != nil {
			return err
		}
		log, err := a.b.LogReader(v.From)
		if err != nil {
			return err
		}
		if v.Until == 0 || v.Until > log.End() {
			v.Until = log.End()
		}
		digest, found, err := h.Verify(ctx, name, log, v)
		if err != nil {
			return verifyProblem(err)
		}
		return c.answer(wireVerified(digest, &found, v.Until))
	})
	if err != nil && a.drained.Err() != nil {
		return broker.ErrClosed
	}
	return err
}

// place reads a position in the log; 0 when there is none.
func (q *query) place(name string) engine.Offset {
	text, _, there := q.first(name)
	if !there {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		q.fail(name, text, "a position in the log", "as an answer before had it")
	}
	return engine.Offset(n)
}

// verifyProblem says what is not as with the other calls about a plugin.
func verifyProblem(err error) error {
	switch {
	case errors.Is(err, plugins.ErrBudget):
		p := problem("plugin_memory")
		p.Detail = pluginhost.Cause(err)
		return p
	case errors.Is(err, pluginhost.ErrFailed):
		p := problem("plugin_not_loaded")
		p.Fix = "GET /v1/plugins/{plugin} says why"
		return p
	}
	return err
}

func wireVerified(digest plugins.Digest, found *pluginhost.Logged, end engine.Offset) PluginVerified {
	out := PluginVerified{
		Digest: digest.String(), Verdicts: found.Verdicts, Compared: found.Compared, Gone: found.Gone, Other: found.Other, Differ: found.Differ,
		Differences: []PluginDifference{}, End: Int64(end),
	}
	for _, d := range found.Differences {
		out.Differences = append(out.Differences, PluginDifference{d.Topic, d.Queue, Int64(d.Offset), d.Key, d.Logged, d.Again})
	}
	if found.Next >= 0 {
		next := Int64(found.Next)
		out.Next = &next
	}
	return out
}
