package httpapi

import (
	"github.com/tidewheel/tidewheel/engine"
)

var topicRoutes = []route{
	{
		method: "GET", pattern: "/v1/topics", id: "listTopics", group: "Topics", role: RoleRead,
		summary: "List topics by name", gives: jsonOf[Topics](), handle: (*API).listTopics,
	},
	{
		method: "GET", pattern: "/v1/topics/{topic}", id: "showTopic", group: "Topics", role: RoleRead,
		summary: "Show a topic", params: []param{topicParam}, gives: jsonOf[Topic](), problems: []string{"unknown_topic"},
		handle: (*API).showTopic,
	},
	{
		method: "PUT", pattern: "/v1/topics/{topic}", id: "defineTopic", group: "Topics", role: RoleOperate,
		summary: "Make a topic, or change its number of queues",
		params:  []param{topicParam}, takes: jsonOf[TopicSpec](), gives: jsonOf[Topic](),
		problems: []string{"reserved_name", "topic_name", "queue_out_of_range", "unknown_outcome", "failed"}, handle: (*API).defineTopic,
	},
	{
		method: "POST", pattern: "/v1/topics/{topic}/pause", id: "pauseTopic", group: "Topics", role: RoleOperate,
		summary: "Keep groups from reading a topic",
		text: "Messages are stored and delivered as always. Reads of a group find nothing and wait; those that say which queue they " +
			"read are not held back. It survives restarts.",
		params: []param{topicParam}, gives: jsonOf[Topic](), problems: []string{"reserved_name", "unknown_topic", "unknown_outcome", "failed"},
		handle: (*API).pauseTopic,
	},
	{
		method: "POST", pattern: "/v1/topics/{topic}/resume", id: "resumeTopic", group: "Topics", role: RoleOperate,
		summary: "Let groups read a topic again",
		params:  []param{topicParam}, gives: jsonOf[Topic](), problems: []string{"reserved_name", "unknown_topic", "unknown_outcome", "failed"},
		handle: (*API).resumeTopic,
	},
	{
		method: "DELETE", pattern: "/v1/topics/{topic}", id: "deleteTopic", group: "Topics", role: RoleOperate,
		summary: "Delete a topic with its queues and committed offsets",
		text:    "What waits for it is dropped when due. A topic that is made later under the same name is another one.",
		params:  []param{topicParam}, problems: []string{"reserved_name", "unknown_topic", "unknown_outcome", "failed"}, handle: (*API).deleteTopic,
	},
}

func (a *API) listTopics(c *call) error {
	topics, err := a.b.Topics(c.ctx())
	if err != nil {
		return err
	}
	out := Topics{Topics: make([]Topic, len(topics))}
	for i := range topics {
		out.Topics[i] = wireTopic(&topics[i])
	}
	return c.answer(out)
}

func wireTopic(t *engine.TopicInfo) Topic {
	out := Topic{
		Name: t.Name, Paused: t.Paused, Pending: t.Pending, Staged: t.Staged, StageLag: t.StageLag,
		PutQueues: t.Count, Queues: make([]QueueRange, len(t.Queues)),
	}
	for i, q := range t.Queues {
		out.Queues[i] = QueueRange{Queue: i, Min: Int64(q.Min), Max: Int64(q.Visible)}
	}
	return out
}

func (a *API) showTopic(c *call) error {
	info, err := a.b.Topic(c.ctx(), c.path("topic"))
	if err != nil {
		return err
	}
	return c.answer(wireTopic(&info))
}

// defineTopic makes a topic, or changes its number of queues.
func (a *API) defineTopic(c *call) error {
	b, err := c.body(maxRaw)
	if err != nil {
		return err
	}
	var spec TopicSpec
	if err := readJSON(b, &spec); err != nil {
		return err
	}
	if err := a.b.DefineTopic(c.ctx(), c.path("topic"), spec.Queues); err != nil {
		return err
	}
	return a.showTopic(c)
}

// deleteTopic removes a topic.
func (a *API) deleteTopic(c *call) error {
	if err := a.b.DeleteTopic(c.ctx(), c.path("topic")); err != nil {
		return err
	}
	return c.done()
}

func (a *API) pauseTopic(c *call) error  { return a.setPaused(c, true) }
func (a *API) resumeTopic(c *call) error { return a.setPaused(c, false) }

// setPaused keeps groups from reading a topic, or lets them again.
func (a *API) setPaused(c *call, paused bool) error {
	if err := a.b.PauseTopic(c.ctx(), c.path("topic"), paused); err != nil {
		return err
	}
	return a.showTopic(c)
}
