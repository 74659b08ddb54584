package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/bulk"
	"github.com/tidewheel/tidewheel/host/instant"
)

// previewTime is how long a preview may count.
const previewTime = 5 * time.Minute

var bulkParam = param{in: inPath, name: "id", text: "the id that starting it answered"}

var bulkRoutes = []route{
	{
		method: "POST", pattern: "/v1/bulk", id: "bulk", group: "Bulk", role: RoleOperate,
		summary: "Preview a change of many messages that wait, or start one",
		text: "Without confirm it counts exactly what the filter means, changes nothing, and answers a word that starts the change " +
			"of these messages: send it as confirm, alone, within ten minutes. Messages that are put or moved later are not " +
			"touched. Dry_run says that the word is not wanted. A restart forgets previews, and ends changes where they are.",
		takes: jsonOf[BulkRequest](), gives: jsonOf[Bulk](), waits: true,
		also:     http.StatusAccepted,
		problems: []string{"unknown_topic", "bad_request", "bulk_expired", "bulk_busy"}, handle: (*API).bulk,
	},
	{
		method: "GET", pattern: "/v1/bulk", id: "listBulk", group: "Bulk", role: RoleRead,
		summary: "List the changes that run, and those that ran lately", gives: jsonOf[Bulks](), handle: (*API).listBulk,
	},
	{
		method: "GET", pattern: "/v1/bulk/{id}", id: "showBulk", group: "Bulk", role: RoleRead,
		summary: "How far a change is", params: []param{bulkParam}, gives: jsonOf[Bulk](), problems: []string{"unknown_bulk"},
		handle: (*API).showBulk,
	},
	{
		method: "DELETE", pattern: "/v1/bulk/{id}", id: "stopBulk", group: "Bulk", role: RoleOperate,
		summary: "Stop a change where it is", text: "What it has done stays done.", params: []param{bulkParam},
		gives: jsonOf[Bulk](), problems: []string{"unknown_bulk"}, handle: (*API).stopBulk,
	},
}

// BulkRequest asks for a preview, or starts what was previewed.
type BulkRequest struct {
	Action string     `json:"action,omitempty" enum:"cancel,move,fire"`
	Filter BulkFilter `json:"filter,omitzero"`
	By     *string    `json:"by,omitempty" doc:"of a move: added to each due time, as +2h or -30m"`
	Time
	DryRun  bool   `json:"dry_run,omitempty" doc:"count only"`
	Confirm string `json:"confirm,omitempty" doc:"of a preview: start it; nothing else may be there"`
}

// BulkFilter says which messages that wait are meant; what is left out leaves all.
type BulkFilter struct {
	Topic string   `json:"topic,omitempty"`
	Tags  []string `json:"tags,omitempty" doc:"with one of these"`
	Key   string   `json:"key,omitempty"`
	From  string   `json:"from,omitempty" doc:"due at or after; RFC 3339, @ms since 1970, or a duration from now"`
	To    string   `json:"to,omitempty" doc:"due before"`
}

// Bulk is a preview, which has no id, or a change.
type Bulk struct {
	ID      string `json:"id,omitempty"`
	State   string `json:"state" enum:"preview,running,done,stopped,failed"`
	Action  string `json:"action" enum:"cancel,move,fire"`
	Matched int64  `json:"matched" doc:"messages that the preview counted"`
	Confirm string `json:"confirm,omitempty" doc:"starts it"`
	Expires string `json:"expires,omitempty" format:"date-time" doc:"of confirm, by the machine's clock"`

	Changed int64  `json:"changed" doc:"messages so far"`
	Passed  int64  `json:"passed" doc:"that were delivered, cancelled or moved meanwhile"`
	Refused int64  `json:"refused" doc:"that could not be changed"`
	Error   string `json:"error,omitempty" doc:"the first one"`
	Began   string `json:"began,omitempty" format:"date-time"`
	Ended   string `json:"ended,omitempty" format:"date-time"`
}

// Bulks lists changes, the newest first.
type Bulks struct {
	Bulk []Bulk `json:"bulk"`
}

// bulk previews or starts a change.
func (a *API) bulk(c *call) error {
	var req BulkRequest
	if err := c.json(&req); err != nil {
		return err
	}
	if req.Confirm != "" {
		return a.startBulk(c, &req)
	}
	spec, err := a.bulkSpec(&req)
	if err != nil {
		return err
	}
	deadline(http.NewResponseController(c.w).SetWriteDeadline, previewTime+answerTime)
	ctx, cancel := both(c.ctx(), a.drained)
	defer cancel()
	p, err := a.bulkJobs.Preview(ctx, spec)
	if err != nil {
		if a.drained.Err() != nil {
			return broker.ErrClosed
		}
		return err
	}
	out := Bulk{State: "preview", Action: req.Action, Matched: p.Matched}
	if !req.DryRun {
		out.Confirm, out.Expires = p.Confirm, instantText(p.Expires.UnixMilli())
	}
	return c.answer(out)
}

// bulkSpec is what a preview is asked for.
func (a *API) bulkSpec(req *BulkRequest) (bulk.Spec, error) {
	f := req.Filter
	spec := bulk.Spec{Action: bulk.Action(req.Action), Filter: bulk.Filter{Topic: f.Topic, Tags: f.Tags, Key: f.Key}}
	now := a.b.NowMs()
	for _, t := range []struct {
		field, text string
		into        *int64
	}{{"filter.from", f.From, &spec.Filter.FromMs}, {"filter.to", f.To, &spec.Filter.ToMs}} {
		if t.text == "" {
			continue
		}
		ms, err := instant.Parse(t.text, now)
		if err != nil {
			return spec, badField(t.field, t.text, "RFC 3339 with its offset, @ms since 1970, or a duration from now", "")
		}
		// The end is a time, also where it has passed: 0 would mean none.
		*t.into = max(ms, 1)
	}
	all := req.asked()
	if req.By != nil {
		all = append(all, asked{field: "by", got: *req.By})
	}
	switch {
	case len(all) > 1:
		return spec, twoTimes(all)
	case len(all) == 0:
		return spec, nil // what is missing, if anything is, the manager knows
	case req.By == nil:
		when, err := all[0].read(a, all[0])
		spec.DueMs = when.DueMs(now)
		return spec, err
	}
	var err error
	if spec.By, err = instant.Shift(*req.By); err != nil || spec.By == 0 {
		return spec, badField("by", *req.By, "a sign and a duration", `as in "+2h" or "-30m"`)
	}
	return spec, nil
}

// startBulk starts what was previewed.
func (a *API) startBulk(c *call, req *BulkRequest) error {
	confirm := req.Confirm
	req.Confirm = ""
	if req.Action != "" || req.By != nil || len(req.asked()) > 0 || req.DryRun || !req.Filter.empty() {
		return badField("confirm", confirm, "nothing beside it", "what was previewed is what is done")
	}
	j, err := a.bulkJobs.Start(confirm)
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", a.opts.Prefix+"/v1/bulk/"+j.ID)
	return c.answerAs(http.StatusAccepted, wireBulk(&j))
}

func (f *BulkFilter) empty() bool {
	return f.Topic == "" && f.Tags == nil && f.Key == "" && f.From == "" && f.To == ""
}

func wireBulk(j *bulk.Job) Bulk {
	out := Bulk{
		ID: j.ID, State: string(j.State), Action: string(j.Spec.Action), Matched: j.Matched, Changed: j.Changed, Passed: j.Passed,
		Refused: j.Refused, Error: j.Error, Began: instantText(j.Began.UnixMilli()),
	}
	if !j.Ended.IsZero() {
		out.Ended = instantText(j.Ended.UnixMilli())
	}
	return out
}

func (a *API) listBulk(c *call) error {
	out := Bulks{Bulk: []Bulk{}}
	for _, j := range a.bulkJobs.Jobs() {
		out.Bulk = append(out.Bulk, wireBulk(&j))
	}
	return c.answer(out)
}

func (a *API) showBulk(c *call) error {
	j, ok := a.bulkJobs.Job(c.path("id"))
	if !ok {
		return noBulk(c.path("id"))
	}
	return c.answer(wireBulk(&j))
}

func (a *API) stopBulk(c *call) error {
	j, ok := a.bulkJobs.Stop(c.path("id"))
	if !ok {
		return noBulk(c.path("id"))
	}
	return c.answer(wireBulk(&j))
}

func noBulk(id string) error {
	p := problem("unknown_bulk")
	p.Field, p.Got = "id", shorten(id)
	return p
}

// bulkProblem says the errors of package bulk in the words of the wire; nil: it is none of those.
func bulkProblem(err error) *Problem {
	switch {
	case errors.Is(err, bulk.ErrExpired):
		return problem("bulk_expired")
	case errors.Is(err, bulk.ErrBusy):
		p := problem("bulk_busy")
		p.Limit = strconv.Itoa(bulk.MaxRunning)
		return p
	case errors.Is(err, bulk.ErrClosed):
		return problem("closing")
	case errors.Is(err, bulk.ErrSpec):
		p := problem("bad_request")
		p.Detail = err.Error()
		return p
	}
	return nil
}
