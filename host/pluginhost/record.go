package pluginhost

import (
	"hash/fnv"
	"maps"
	"slices"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// tagHeader is the header that has the tag of a message.
const tagHeader = "TAGS"

// Record fills dst with what a plugin sees of a message, whose topic is its own and not the stage's or a retry topic's. The
// headers go behind what is in the buffer, which is returned grown; dst is valid while the message and the buffer are.
func Record(dst *abi.Record, topic string, m *engine.Message, headers abi.Headers) abi.Headers {
	return record(dst, []byte(topic), m, headers)
}

func record(dst *abi.Record, topic []byte, m *engine.Message, headers abi.Headers) abi.Headers {
	from := len(headers)
	if len(m.Tag) > 0 {
		headers = headers.Append([]byte(tagHeader), m.Tag)
	}
	for name, value := range m.Properties.All() {
		headers = headers.Append(name, value)
	}
	*dst = abi.Record{
		ID: uint64(m.First), StoredMs: m.StoreMs, DueMs: m.DueMs, Attempt: uint32(m.Attempts),
		Topic: topic, Key: m.Key, Headers: headers[from:len(headers):len(headers)], Body: m.Body,
	}
	return headers
}

// putRecord is Record for a message that is being put.
func putRecord(dst *abi.Record, m *broker.Message) {
	var headers abi.Headers
	if m.Tag != "" {
		headers = headers.Append([]byte(tagHeader), []byte(m.Tag))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Properties)) {
		headers = headers.Append([]byte(name), []byte(m.Properties[name]))
	}
	*dst = abi.Record{Topic: []byte(m.Topic), Key: []byte(m.Key), Headers: headers, Body: m.Body}
}

// clone makes a record independent of the memory it lies in.
func clone(r abi.Record) abi.Record {
	r.Key, r.Headers, r.Body = slices.Clone(r.Key), slices.Clone(r.Headers), slices.Clone(r.Body)
	return r
}

// content is what the broker makes a message of. It keeps nothing of the record's headers, but its body.
func content(r *abi.Record) *broker.Content {
	c := &broker.Content{Key: string(r.Key), Properties: map[string]string{}, Body: r.Body}
	for h := r.Headers; ; {
		name, value, rest, ok := h.Next()
		if !ok {
			return c
		}
		if string(name) == tagHeader {
			c.Tag = string(value)
		} else {
			c.Properties[string(name)] = string(value)
		}
		h = rest
	}
}

// seed is the seed of a batch: the same when the batch is decided again.
func seed(first *abi.Record) uint64 {
	hash := fnv.New64a()
	if first.ID == 0 { // not stored yet
		hash.Write(first.Key)
		hash.Write(first.Body)
		return hash.Sum64()
	}
	var id [8]byte
	for i := range id {
		id[i] = byte(first.ID >> (8 * i))
	}
	hash.Write(id[:])
	return hash.Sum64()
}
