package httpapi

import (
	"net/http"

	"github.com/tidewheel/tidewheel/engine"
)

func (a *API) listTopics(w http.ResponseWriter, r *http.Request) error {
	topics, err := a.b.Topics(r.Context())
	if err != nil {
		return err
	}
	out := Topics{Topics: make([]Topic, len(topics))}
	for i := range topics {
		out.Topics[i] = wireTopic(&topics[i])
	}
	return answer(w, http.StatusOK, out)
}

func wireTopic(t *engine.TopicInfo) Topic {
	out := Topic{Name: t.Name, Pending: t.Pending, Queues: make([]QueueRange, len(t.Queues))}
	for i, q := range t.Queues {
		out.Queues[i] = QueueRange{Queue: i, Min: Int64(q.Min), Max: Int64(q.Visible)}
	}
	return out
}

func (a *API) showTopic(w http.ResponseWriter, r *http.Request) error {
	info, err := a.b.Topic(r.Context(), r.PathValue("topic"))
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, wireTopic(&info))
}

// defineTopic makes a topic, or changes its number of queues.
func (a *API) defineTopic(w http.ResponseWriter, r *http.Request) error {
	b, err := readBody(w, r, maxRaw)
	if err != nil {
		return err
	}
	var spec TopicSpec
	if err := readJSON(b, &spec); err != nil {
		return err
	}
	if err := a.b.DefineTopic(r.Context(), r.PathValue("topic"), spec.Queues); err != nil {
		return err
	}
	return a.showTopic(w, r)
}
