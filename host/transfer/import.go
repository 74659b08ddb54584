package transfer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/tidewheel/tidewheel/engine"
)

// ErrNotEmpty is the kind of an error of Import when the directory holds something.
var ErrNotEmpty = errors.New("transfer: the directory is not empty")

// Limits of an import.
const (
	// maxLine is the longest line, bytes: a body of 4 MiB whose every byte is escaped, with room.
	maxLine = 64 << 20
	// flushCount and flushBytes bound what becomes durable at once.
	flushCount = 4096
	flushBytes = 4 << 20
	// batchBytes bounds a batch of the log: a byte of it that is damaged later takes what is in the batch with it.
	batchBytes = 64 << 10
	// maxDelay is as far ahead as a store can have a due time; how far a server takes one is its own affair.
	maxDelay = 100 * 365 * 24 * time.Hour
)

// ImportOptions tune an import. The zero value is right for most.
type ImportOptions struct {
	// Engine tunes the store that is made. What is fixed when a store is made, as Lanes, is fixed by it.
	Engine engine.Options
	// Progress hears how many messages were stored. It may be nil.
	Progress func(done int64)
	// Refused hears of each line that is not taken, with its number from 1. It may be nil.
	Refused func(line int, err error)
}

// Imported counts what was imported.
type Imported struct {
	Topics  int   `json:"topics"`
	Visible int64 `json:"visible"`
	Waiting int64 `json:"waiting"`
	Past    int64 `json:"past"` // of the visible ones: they waited, and their due time has passed
	Groups  int   `json:"groups"`
	Refused int64 `json:"refused"` // lines
}

// importer reads an export.
type importer struct {
	s     *engine.Solo
	opts  ImportOptions
	n     Imported
	batch []engine.Command
	lines []int                  // of the commands of batch
	sizes []int                  // of the commands of batch, about
	bytes int                    // their sum
	came  map[queueName]int64    // visible messages, by queue
	after []engine.Command       // what is done at the end: numbers of queues, pauses
	where map[engine.Command]int // the lines of after
}

// Import makes a store in a directory that is missing or empty (ErrNotEmpty), and puts the lines into it. A line that
// cannot be taken is refused and the rest goes on; input that does not begin as an export does is an error of kind
// ErrFormat, and nothing is made. What was stored before an error is durable.
func Import(env engine.Env, dir string, r io.Reader, opts ImportOptions) (n Imported, err error) {
	names, err := env.FS.ReadDir(dir)
	switch {
	case err == nil && len(names) > 0:
		return n, fmt.Errorf("%w: it has %s", ErrNotEmpty, names[0].Name)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return n, fmt.Errorf("transfer: import: %w", err)
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	number, first, err := firstLine(lines)
	if err == nil && first.Kind != KindExport {
		err = fmt.Errorf("%w: line %d is of kind %q, and the first is to be of kind export", ErrFormat, number, first.Kind)
	}
	if err != nil {
		return n, fmt.Errorf("transfer: import: %w", err)
	}
	opts.Engine.MaxDelay = maxDelay
	s, err := engine.OpenSolo(env, dir, opts.Engine)
	if err != nil {
		return n, fmt.Errorf("transfer: import: %w", err)
	}
	m := &importer{s: s, opts: opts, came: map[queueName]int64{}, where: map[engine.Command]int{}}
	if err = errors.Join(m.run(lines, number), s.Close()); err != nil {
		err = fmt.Errorf("transfer: import: %w", err)
	}
	return m.n, err
}

// firstLine reads the first line that is not empty.
func firstLine(lines *bufio.Scanner) (number int, l Line, err error) {
	for lines.Scan() {
		number++
		if b := bytes.TrimSpace(lines.Bytes()); len(b) > 0 {
			l, err = parse(b)
			return number, l, err
		}
	}
	if err := lines.Err(); err != nil {
		return number, l, err
	}
	return number, l, fmt.Errorf("%w: there is nothing", ErrFormat)
}

func (m *importer) run(lines *bufio.Scanner, number int) error {
	for lines.Scan() {
		number++
		b := bytes.TrimSpace(lines.Bytes())
		if len(b) == 0 {
			continue
		}
		l, err := parse(b)
		if err == nil {
			err = m.line(number, &l, len(b))
		}
		switch {
		case errors.Is(err, ErrFormat):
			m.refuse(number, err)
		case err != nil:
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", number+1, err)
	}
	if err := m.flush(); err != nil {
		return err
	}
	for _, cmd := range m.after {
		if err := m.add(m.where[cmd], cmd, 0); err != nil {
			return err
		}
	}
	return m.flush()
}

// line does what a line says, or notes it.
func (m *importer) line(number int, l *Line, size int) error {
	switch l.Kind {
	case KindTopic:
		return m.topic(number, l)
	case KindMessage:
		p, err := l.put()
		if err != nil {
			return err
		}
		return m.add(number, p, size)
	case KindGroup:
		m.n.Groups++
		return m.add(number, &engine.DefineGroup{Group: l.Group, Attrs: l.Attrs}, 0)
	case KindOffset:
		if l.Queue == nil || l.Lag == nil || *l.Lag < 0 {
			return fmt.Errorf("%w: queue or lag is missing", ErrFormat)
		}
		if err := m.flush(); err != nil { // what has come is counted then
			return err
		}
		offset := max(m.came[queueName{l.Topic, *l.Queue}]-*l.Lag, 0)
		return m.add(number, &engine.CommitOffset{Group: l.Group, Topic: l.Topic, Queue: *l.Queue, Offset: offset, Seek: true}, 0)
	}
	return nil // a second head
}

func (m *importer) topic(number int, l *Line) error {
	m.n.Topics++
	if err := m.add(number, &engine.DefineTopic{Topic: l.Topic, Queues: max(l.Queues, l.All), Attrs: l.Attrs}, 0); err != nil {
		return err
	}
	if l.Staged {
		if err := m.add(number, &engine.StageTopic{Topic: l.Topic, Staged: true}, 0); err != nil {
			return err
		}
	}
	later := func(cmd engine.Command) {
		m.after, m.where[cmd] = append(m.after, cmd), number
	}
	if l.All > l.Queues {
		later(&engine.DefineTopic{Topic: l.Topic, Queues: l.Queues, Attrs: l.Attrs})
	}
	if l.Paused {
		later(&engine.PauseTopic{Topic: l.Topic, Paused: true})
	}
	return nil
}

// add puts a command into the batch.
func (m *importer) add(line int, cmd engine.Command, size int) error {
	m.batch, m.lines, m.sizes = append(m.batch, cmd), append(m.lines, line), append(m.sizes, size)
	if m.bytes += size; m.bytes < flushBytes && len(m.batch) < flushCount {
		return nil
	}
	return m.flush()
}

// flush makes the commands durable and counts what became of them.
func (m *importer) flush() error {
	for at := 0; at < len(m.batch); {
		n, err := m.append(at)
		if err != nil {
			return err
		}
		at += n
	}
	m.batch, m.lines, m.sizes, m.bytes = m.batch[:0], m.lines[:0], m.sizes[:0], 0
	if err := m.s.Commit(); err != nil {
		return err
	}
	pos, err := m.s.Sync()
	if err != nil {
		return err
	}
	m.s.Release(pos)
	if m.opts.Progress != nil {
		m.opts.Progress(m.n.Visible + m.n.Waiting)
	}
	return nil
}

// append appends one batch of the log, from a command on, and says how many it took.
func (m *importer) append(at int) (n int, err error) {
	for bytes := 0; at+n < len(m.batch) && (n == 0 || bytes+m.sizes[at+n] <= batchBytes); n++ {
		bytes += m.sizes[at+n]
	}
	answers, _, err := m.s.Append(m.batch[at : at+n])
	if errors.Is(err, engine.ErrBusy) {
		answers, err = m.s.Do(m.batch[at : at+n]...) // it does what the engine waits for
	}
	for i := range answers {
		m.answered(at+i, &answers[i])
	}
	return len(answers), err
}

// answered counts what became of a command.
func (m *importer) answered(i int, a *engine.Answer) {
	p, isPut := m.batch[i].(*engine.Put)
	switch {
	case a.Err != nil:
		m.refuse(m.lines[i], a.Err)
	case isPut && a.Outcome == engine.Scheduled:
		m.n.Waiting++
	case isPut:
		m.n.Visible++
		if p.DueMs != 0 {
			m.n.Past++
		} else {
			m.came[queueName{p.Topic, int(a.Queue)}]++
		}
	}
}

func (m *importer) refuse(line int, err error) {
	m.n.Refused++
	if m.opts.Refused != nil {
		m.opts.Refused(line, err)
	}
}
