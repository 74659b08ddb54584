package engine

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// item is one line of a dump, being made: fields are added in order, and end writes it. It is a value of its own only so that
// calls can be chained.
type item struct{ d *dumper }

// Widths of columns for people: a shorter value is filled up.
const (
	kindWidth = 8
	wordWidth = 7
	posWidth  = 9
	idWidth   = 5
	numWidth  = 4
)

// item begins a line; depth says how far it belongs to lines before it.
func (d *dumper) item(depth int, kind string) item {
	d.line = d.line[:0]
	if d.asJSON {
		d.line = append(d.line, `{"item":"`...)
		d.line = append(append(d.line, kind...), '"')
		return item{d}
	}
	for range depth {
		d.line = append(d.line, "  "...)
	}
	d.line = append(d.line, kind...)
	d.pad(len(kind), kindWidth)
	return item{d}
}

// end writes the line.
func (i item) end() {
	d := i.d
	if d.asJSON {
		d.line = append(d.line, '}')
	} else {
		for n := len(d.line); n > 0 && d.line[n-1] == ' '; n-- {
			d.line = d.line[:n-1]
		}
	}
	d.line = append(d.line, '\n')
	_, _ = d.out.Write(d.line) // Flush says what went wrong
}

func (d *dumper) pad(have, width int) {
	for ; have < width; have++ {
		d.line = append(d.line, ' ')
	}
}

// field adds a value: as it is for people, and to JSON as a string if it is quoted.
func (i item) field(name, value string, width int, quoted bool) item {
	d := i.d
	if !d.asJSON {
		d.line = append(d.line, ' ')
		d.line = append(append(d.line, name...), '=')
		d.line = append(d.line, value...)
		d.pad(utf8.RuneCountInString(value), width)
		return i
	}
	i.name(name)
	if quoted {
		d.line = appendJSON(d.line, value)
	} else {
		d.line = append(d.line, value...)
	}
	return i
}

// name begins a field of JSON.
func (i item) name(name string) {
	i.d.line = append(i.d.line, ',', '"')
	i.d.line = append(append(i.d.line, name...), '"', ':')
}

// num adds a number that is exact in JSON.
func (i item) num(name string, v int64) item {
	return i.field(name, strconv.FormatInt(v, 10), numWidth, false)
}

// big adds a number of 64 bits.
func (i item) big(name string, v int64) item {
	return i.field(name, strconv.FormatInt(v, 10), idWidth, true)
}

func (i item) ubig(name string, v uint64) item {
	return i.field(name, strconv.FormatUint(v, 10), idWidth, true)
}

// pos adds a position in the log.
func (i item) pos(name string, v Offset) item {
	return i.field(name, strconv.FormatInt(int64(v), 10), posWidth, true)
}

func (i item) hex(name string, v uint64) item {
	s := strconv.FormatUint(v, 16)
	return i.field(name, "0000000000000000"[len(s):]+s, 0, true)
}

// word adds a text that needs no quotes.
func (i item) word(name, v string) item { return i.field(name, v, wordWidth, true) }

// text adds a text in quotes.
func (i item) text(name, v string) item {
	if i.d.asJSON {
		return i.field(name, v, 0, true)
	}
	return i.field(name, strconv.Quote(v), 0, false)
}

// is adds a word if something holds.
func (i item) is(name string, v bool) item {
	if !v {
		return i
	}
	if i.d.asJSON {
		return i.field(name, "true", 0, false)
	}
	i.d.line = append(append(i.d.line, ' '), name...)
	return i
}

// when adds a time in ms since 1970: a date for people, the number for machines.
func (i item) when(name string, ms int64) item {
	if i.d.asJSON {
		return i.field(name+"Ms", strconv.FormatInt(ms, 10), 0, true)
	}
	if ms < 0 || ms > maxDueMs {
		return i.field(name, strconv.FormatInt(ms, 10), len(dateLayout), false)
	}
	return i.field(name, time.UnixMilli(ms).UTC().Format(dateLayout), 0, false)
}

const dateLayout = "2006-01-02T15:04:05.000Z"

// key adds (due, id).
func (i item) key(name string, k timerlog.Key) item {
	if i.d.asJSON {
		return i.big(name+"DueMs", k.Due).ubig(name+"ID", k.ID)
	}
	return i.when(name, k.Due).field("id", strconv.FormatUint(k.ID, 10), idWidth, false)
}

// real adds where a message that waits goes, by RocketMQ's names: it stands in a system topic until then.
func (i item) real(topic string, queue uint32, level uint8) item {
	system, at := "SCHEDULE_TOPIC_XXXX", int64(level)-1
	if level == 0 {
		system, at = "rmq_sys_wheel_timer", 0
	}
	return i.word("topic", system).num("queue", at).word("REAL_TOPIC", topic).num("REAL_QID", int64(queue))
}

// Lengths of previews, bytes.
const (
	previewPeople = 32
	previewJSON   = 64
)

// body adds the length of a body and how it begins.
func (i item) body(b []byte) item {
	i.num("body", int64(len(b)))
	if i.d.asJSON {
		quoted := strconv.Quote(string(b[:min(len(b), previewJSON)]))
		return i.field("preview", quoted[1:len(quoted)-1], 0, true)
	}
	if len(b) == 0 {
		return i
	}
	preview := strconv.Quote(string(b[:min(len(b), previewPeople)]))
	if len(b) > previewPeople {
		preview += "…"
	}
	i.d.line = append(append(i.d.line, ' '), preview...)
	return i
}

// properties adds a message's properties, if there are some.
func (i item) properties(p message.Properties) item {
	if len(p) == 0 {
		return i
	}
	d := i.d
	if d.asJSON {
		i.name("properties")
	} else {
		d.line = append(d.line, " properties="...)
	}
	separator := byte('[')
	for name, value := range p.All() {
		d.line = append(d.line, separator)
		if d.asJSON {
			d.line = append(d.line, '[')
			d.line = append(appendJSON(d.line, string(name)), ',')
			d.line = append(appendJSON(d.line, string(value)), ']')
			separator = ','
			continue
		}
		d.line = append(strconv.AppendQuote(d.line, string(name)), ':')
		d.line = strconv.AppendQuote(d.line, string(value))
		separator = ' '
	}
	d.line = append(d.line, ']')
	return i
}

// appendJSON appends a string of JSON. Bytes that are no UTF-8 become U+FFFD, as in package encoding/json, which is not used
// since guests embed the engine.
func appendJSON(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20 || r == 0x7f:
			b = append(b, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
		case r == '\u2028' || r == '\u2029':
			b = append(b, `\u202`...)
			b = append(b, digits[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
