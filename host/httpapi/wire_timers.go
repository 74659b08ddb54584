package httpapi

// Timer is what is known of a delayed message. What follows Now is there while the message waits, and of a cancelled one
// while its body is in the log.
type Timer struct {
	Handle string `json:"handle"`
	Topic  string `json:"topic,omitempty"`
	State  string `json:"state" enum:"scheduled,cancelled,superseded,delivered"`
	Due    string `json:"due" format:"date-time"`
	DueMs  int64  `json:"due_ms"`
	DueIn  string `json:"due_in,omitempty" doc:"of one that waits"`
	Now    string `json:"now" format:"date-time"`

	Queue      *int              `json:"queue,omitempty"`
	Key        string            `json:"key,omitempty"`
	Tag        string            `json:"tag,omitempty"`
	Properties map[string]string `json:"properties,omitempty"`
	Body       *string           `json:"body,omitempty"`
	BodyBase64 []byte            `json:"body_base64,omitempty"`
	DelayLevel int               `json:"delay_level,omitempty"`
	StoredMs   int64             `json:"stored_ms,omitempty"`
	BornMs     int64             `json:"born_ms,omitempty"`
}

// Bytes is the body, however it came.
func (t *Timer) Bytes() []byte {
	if t.Body != nil {
		return []byte(*t.Body)
	}
	return t.BodyBase64
}

// The outcomes that are not a problem.
const (
	OutcomeCancelled        = "cancelled"
	OutcomeAlreadyCancelled = "already_cancelled"
	OutcomeMoved            = "moved"
	OutcomeFired            = "fired"
	OutcomeRestored         = "restored"
)

// Cancelled answers a cancel.
type Cancelled struct {
	Outcome string `json:"outcome" enum:"cancelled,already_cancelled"`
}

// Reschedule is what PATCH takes: exactly one is set.
type Reschedule struct {
	Time
	By *string `json:"by,omitempty" doc:"from the due time it has, as '+2h' or '-30m'"`
}

// Changed answers a move, a fire and an undo.
type Changed struct {
	Outcome string `json:"outcome" enum:"moved,fired,restored"`
	Handle  string `json:"handle" doc:"the new one: the old one is superseded"`
	Due     string `json:"due" format:"date-time"`
	DueMs   int64  `json:"due_ms"`
	DueIn   string `json:"due_in"`
	Now     string `json:"now" format:"date-time"`
}

// Waiting is a message that waits, as a list shows it.
type Waiting struct {
	Handle     string `json:"handle"`
	Topic      string `json:"topic,omitempty" doc:"none: it was deleted, and the message will be dropped"`
	Queue      int    `json:"queue"`
	Due        string `json:"due" format:"date-time"`
	DueMs      int64  `json:"due_ms"`
	DueIn      string `json:"due_in"`
	Size       int    `json:"size" doc:"bytes of its record"`
	DelayLevel int    `json:"delay_level,omitempty"`
}

// Timers is one page of waiting messages, in the order of their due times.
type Timers struct {
	Timers []Waiting `json:"timers"`
	Next   string    `json:"next,omitempty" doc:"the page that follows, also of an empty page: what was looked at so far had nothing; none: that was all"`
	// ScannedToMs is a due time: whatever matches before it was found. None: everything was looked at.
	ScannedToMs int64  `json:"scanned_to_ms,omitempty"`
	ScannedTo   string `json:"scanned_to,omitempty" format:"date-time"`
	Now         string `json:"now" format:"date-time"`
}

// Horizon counts waiting messages by due time: Counts[i] are due from FromMs + i·StepMs until a step later.
type Horizon struct {
	Topic  string  `json:"topic,omitempty"`
	FromMs int64   `json:"from_ms"`
	ToMs   int64   `json:"to_ms"`
	StepMs int64   `json:"step_ms"`
	Counts []int64 `json:"counts"`
	Total  int64   `json:"total"`
	// ScannedToMs is the due time up to which the counts are complete; ask again from there for the rest.
	ScannedToMs int64  `json:"scanned_to_ms"`
	Complete    bool   `json:"complete"`
	Now         string `json:"now" format:"date-time"`
}

// Explanation is the life of a delayed message, as the log tells it.
type Explanation struct {
	Handle string  `json:"handle"`
	State  string  `json:"state" enum:"scheduled,cancelled,superseded,delivered"`
	Reason string  `json:"reason" doc:"why it is not in its topic, or why it is"`
	Events []Event `json:"events"`
	// NewHandle is set when the state is superseded.
	NewHandle string `json:"new_handle,omitempty" doc:"the one that counts instead, when it is superseded; it may be superseded, too"`
	Complete  bool   `json:"complete" doc:"the log was read to its end"`
	Now       string `json:"now" format:"date-time"`
}

// Event is something that happened to a message.
type Event struct {
	Kind     string `json:"kind" doc:"scheduled, moved, delivered and so on"`
	At       string `json:"at" format:"date-time"`
	AtMs     int64  `json:"at_ms"`
	Position Int64  `json:"position"`
	Topic    string `json:"topic,omitempty"`
	DueMs    int64  `json:"due_ms,omitempty"`
	NewDueMs int64  `json:"new_due_ms,omitempty" doc:"of a move and an undo: when it is due now"`
	Queue    int    `json:"queue"`
	Offset   *Int64 `json:"offset,omitempty" doc:"in the queue, of a delivery"`
	Action   string `json:"action,omitempty" doc:"what a plugin decided: keep, drop, retry, dead_letter, route, replace, error"`
	Code     int    `json:"code,omitempty" doc:"the plugin's reason"`
	Plugin   string `json:"plugin,omitempty" doc:"SHA-256 of the file of the plugin that decided"`
}
