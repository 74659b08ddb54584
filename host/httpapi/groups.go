package httpapi

import (
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/instant"
)

var groupParam = param{in: inPath, name: "group", text: "the group's name"}

var groupRoutes = []route{
	{
		method: "GET", pattern: "/v1/groups", id: "listGroups", group: "Groups", role: RoleRead,
		summary: "List consumer groups by name", gives: jsonOf[Groups](), handle: (*API).listGroups,
	},
	{
		method: "GET", pattern: "/v1/groups/{group}", id: "showGroup", group: "Groups", role: RoleRead,
		summary: "How a group stands", params: []param{groupParam}, gives: jsonOf[Group](), problems: []string{"unknown_group"},
		handle: (*API).showGroup,
	},
	{
		method: "PUT", pattern: "/v1/groups/{group}", id: "defineGroup", group: "Groups", role: RoleOperate,
		summary: "Make a group, or change its mode",
		text: "Nobody has to make a group of mode clustering: reading does. In a broadcast group each reader keeps its place by " +
			"itself, and messages with a delay are not for it.",
		params: []param{groupParam}, takes: jsonOf[GroupSpec](), gives: jsonOf[Group](),
		problems: []string{"reserved_name", "group_name", "broadcast", "unknown_outcome", "failed"}, handle: (*API).defineGroup,
	},
	{
		method: "DELETE", pattern: "/v1/groups/{group}", id: "deleteGroup", group: "Groups", role: RoleOperate,
		summary: "Delete a group with its offsets, its retries and its dead letters", params: []param{groupParam},
		problems: []string{"reserved_name", "unknown_group", "unknown_outcome", "failed"}, handle: (*API).deleteGroup,
	},
	{
		method: "POST", pattern: "/v1/groups/{group}/seek", id: "seek", group: "Groups", role: RoleOperate,
		summary: "Set where a group goes on in a topic, back or forth",
		text:    "In the queues that are named, or with time in all of them: at the first message that became visible then or later.",
		params:  []param{groupParam}, takes: jsonOf[Seek](), gives: jsonOf[Sought](),
		problems: []string{"reserved_name", "unknown_topic", "group_name", "queue_out_of_range", "offset", "broadcast", "unknown_outcome", "failed"},
		handle:   (*API).seek,
	},
}

// GroupSpec is what PUT takes.
type GroupSpec struct {
	Mode string `json:"mode" enum:"clustering,broadcast"`
}

// Groups lists consumer groups.
type Groups struct {
	Groups []Group `json:"groups"`
}

// Group is how a consumer group stands.
type Group struct {
	Name        string       `json:"name"`
	Mode        string       `json:"mode" enum:"clustering,broadcast"`
	Lag         int64        `json:"lag" doc:"messages that it is not done with"`
	Leased      int          `json:"leased" doc:"messages that its readers have"`
	Retrying    int64        `json:"retrying" doc:"messages that come again"`
	DeadLetters int64        `json:"dead_letters"`
	Topics      []GroupTopic `json:"topics"`
}

// GroupTopic is how a group stands in a topic.
type GroupTopic struct {
	Topic  string       `json:"topic"`
	Queues []GroupQueue `json:"queues"`
}

// GroupQueue is how a group stands in a queue.
type GroupQueue struct {
	Queue     int   `json:"queue"`
	Committed Int64 `json:"committed" doc:"it goes on here after a restart; -1: it has committed nothing"`
	Next      Int64 `json:"next" doc:"it has not looked at what lies from here on"`
	End       Int64 `json:"end" doc:"of the queue"`
	Lag       int64 `json:"lag"`
	Leased    int   `json:"leased"`
}

// Seek says where a group is to go on: exactly one of time and offsets is there.
type Seek struct {
	Topic   string        `json:"topic"`
	Time    string        `json:"time,omitempty" doc:"RFC 3339 with its offset, @ms since 1970, or a duration from now, as -0s"`
	Offsets []QueueOffset `json:"offsets,omitempty"`
}

// Sought says where the group goes on.
type Sought struct {
	Topic   string        `json:"topic"`
	Offsets []QueueOffset `json:"offsets"`
}

func wireGroup(g *broker.GroupInfo) Group {
	out := Group{
		Name: g.Name, Mode: g.Mode.String(), Lag: g.Lag(), Leased: g.Leased(), Retrying: g.Retrying, DeadLetters: g.DeadLetters,
		Topics: []GroupTopic{},
	}
	for _, t := range g.Topics {
		topic := GroupTopic{Topic: t.Topic, Queues: []GroupQueue{}}
		for _, q := range t.Queues {
			topic.Queues = append(topic.Queues, GroupQueue{
				q.Queue, Int64(q.Committed), Int64(q.Next), Int64(q.End), q.Lag, q.Leased,
			})
		}
		out.Topics = append(out.Topics, topic)
	}
	return out
}

func (a *API) listGroups(c *call) error {
	groups, err := a.b.Groups(c.ctx())
	if err != nil {
		return err
	}
	out := Groups{Groups: []Group{}}
	for i := range groups {
		out.Groups = append(out.Groups, wireGroup(&groups[i]))
	}
	return c.answer(out)
}

func (a *API) showGroup(c *call) error {
	g, err := a.b.Group(c.ctx(), c.path("group"))
	if err != nil {
		return err
	}
	return c.answer(wireGroup(&g))
}

// defineGroup makes a group, or changes its mode.
func (a *API) defineGroup(c *call) error {
	var spec GroupSpec
	if err := c.json(&spec); err != nil {
		return err
	}
	modes := map[string]broker.GroupMode{
		broker.Clustering.String(): broker.Clustering, broker.Broadcast.String(): broker.Broadcast,
	}
	mode, ok := modes[spec.Mode]
	if !ok {
		return badField("mode", spec.Mode, "clustering, broadcast", "")
	}
	if err := a.b.DefineGroup(c.ctx(), c.path("group"), mode); err != nil {
		return err
	}
	return a.showGroup(c)
}

func (a *API) deleteGroup(c *call) error {
	if err := a.b.DeleteGroup(c.ctx(), c.path("group")); err != nil {
		return err
	}
	return c.done()
}

// seek sets where a group goes on.
func (a *API) seek(c *call) error {
	var req Seek
	if err := c.json(&req); err != nil {
		return err
	}
	group, out := c.path("group"), Sought{Topic: req.Topic, Offsets: []QueueOffset{}}
	switch {
	case (req.Time == "") == (len(req.Offsets) == 0):
		return badField("time", req.Time, "one of time and offsets", "")
	case req.Time != "":
		ms, err := instant.Parse(req.Time, a.b.NowMs())
		if err != nil {
			return badField("time", req.Time, "RFC 3339 with its offset, @ms since 1970, or a duration from now", "")
		}
		at, err := a.b.SeekTime(c.ctx(), group, req.Topic, ms)
		if err != nil {
			return err
		}
		for _, o := range at {
			out.Offsets = append(out.Offsets, QueueOffset{o.Queue, Int64(o.Offset)})
		}
		return c.answer(out)
	}
	var offsets []broker.QueueOffset
	for _, o := range req.Offsets {
		offsets = append(offsets, broker.QueueOffset{Queue: o.Queue, Offset: int64(o.Offset)})
	}
	if err := a.b.Seek(c.ctx(), group, req.Topic, offsets); err != nil {
		return err
	}
	out.Offsets = req.Offsets
	return c.answer(out)
}
