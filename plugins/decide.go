package plugins

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidewheel/tidewheel/plugins/abi"
)

// Call is what the caller says about a batch.
type Call struct {
	Hook  abi.Hook
	NowMs int64  // ms since the epoch; the guest's clock, and the time by which quarantine and log rates go
	Seed  uint64 // of the guest's random numbers; a number that the batch keeps when it is decided again
}

// Decision is what was decided about one record.
type Decision struct {
	// Verdict is what takes effect, the failure policy included. Unset means undecided: the record and those after it are to
	// be asked again.
	Verdict abi.Verdict

	// Output is, for the verdict replace, what to put in place of the record, or the request to send. Its slices belong to
	// the Answer and are valid until it is used again.
	Output abi.Record

	// Failure says why the plugin has no answer of its own; nil when it has.
	Failure *Failure
}

// Answer is what a plugin decided about a batch. The caller owns it and may use it again and again; one that was used before
// has the memory it needs, so that deciding allocates nothing. The zero Answer is ready. Not safe for concurrent use.
type Answer struct {
	Decisions  []Decision // one for each record
	Decided    int        // decisions from here on are undecided; len(Decisions) when all are made
	Digest     Digest     // of the file that decided all of it
	Generation uint64
	Targets    []string // of the generation, as in its Spec; read-only
	Fuel       int64    // units used by all calls, also those that failed
	Deaths     int      // instances that died
	Memory     int64    // bytes of the memory of the instance that was asked last; 0 when none was

	out []byte // outputs of all calls
}

func (a *Answer) reset(n int) {
	if cap(a.Decisions) < n {
		a.Decisions = make([]Decision, n)
	}
	a.Decisions = a.Decisions[:n]
	clear(a.Decisions)
	a.Decided, a.Fuel, a.Deaths, a.Memory, a.out = n, 0, 0, 0, a.out[:0]
}

// decider takes a batch through a module: one call for many records, a fresh instance after each death, and exactly one record
// blamed for it.
type decider struct {
	ctx     context.Context
	m       *Module
	in      *instance // nil between a death and the next call
	call    Call
	records []abi.Record
	a       *Answer
	streak  int  // deaths without an answer in between
	limit   int  // streak at which to stop
	answers bool // the plugin answered at least once
	stop    bool // nothing more is to be asked
	err     error
}

// run decides records [lo, hi).
func (d *decider) run(lo, hi int) {
	for lo < hi && !d.stop {
		end, size := d.fit(lo, hi)
		if most := d.m.spec.Limits.RecordBytes; end == lo+1 && size > most {
			d.fail(lo, &death{class: ClassTooLarge, message: fmt.Sprintf("record of %d bytes, at most %d", size, most)}, 0)
			lo++
			continue
		}
		lo = d.chunk(lo, end, size)
	}
}

// fit returns the end of the largest call that begins at lo, and the bytes of its batch.
func (d *decider) fit(lo, hi int) (end, size int) {
	l := &d.m.spec.Limits
	most, mostBytes := min(l.BatchMax, hi-lo), min(l.BatchBytes, l.RecordBytes)
	if c := int(d.m.chunk.Load()); c > 0 {
		most = min(most, c)
	}
	size = abi.HeaderSize + abi.RecordSize(&d.records[lo])
	for end = lo + 1; end-lo < most; end++ {
		n := size + abi.RecordSize(&d.records[end])
		if n > mostBytes {
			break
		}
		size = n
	}
	return end, (size + 7) &^ 7
}

// chunk makes one call for [lo, hi), a batch of size bytes, and returns where to go on.
func (d *decider) chunk(lo, hi, size int) int {
	if d.in == nil {
		in, err := d.m.borrow(d.ctx)
		if err != nil {
			d.noInstance(lo, err)
			return lo
		}
		d.in = in
	}
	n := hi - lo
	b, dead := d.in.call(abi.Head{Hook: d.call.Hook, NowMs: d.call.NowMs, Seed: d.call.Seed}, d.records[lo:hi], size)
	used := d.in.used(n)
	d.a.Fuel += used
	d.a.Memory = int64(d.in.mem.Size())
	if dead == nil {
		d.streak, d.answers = 0, true
		d.accept(b, lo, hi, used)
		d.grow()
		if d.in.dead { // it broke a rule: its verdicts count, it is not asked again
			d.drop()
		}
		return hi
	}
	return d.bury(b, dead, lo, hi, used)
}

// grow lets calls become larger again after budgets ran out.
func (d *decider) grow() {
	if c := d.m.chunk.Load(); c > 0 {
		if c += 8; c >= int64(d.m.spec.Limits.BatchMax) {
			c = 0
		}
		d.m.chunk.Store(c)
	}
}

// drop gives a dead instance back, which closes it.
func (d *decider) drop() {
	d.m.giveBack(d.in)
	d.in = nil
}

// noInstance ends the batch: without an instance nothing can be decided.
func (d *decider) noInstance(lo int, err error) {
	d.stop = true
	if d.ctx.Err() != nil || errors.Is(err, ErrClosed) {
		d.err = err
		d.undecided(lo, nil)
		return
	}
	d.streak = d.limit
	d.a.Deaths++
	d.undecided(lo, &Failure{Class: ClassStart, Message: line(err.Error(), MaxMessage), Digest: d.m.digest})
}

func (d *decider) undecided(lo int, f *Failure) {
	d.a.Decided = min(d.a.Decided, lo)
	for i := lo; i < len(d.a.Decisions); i++ {
		d.a.Decisions[i] = Decision{Failure: f}
	}
}

// bury handles a death in the call for [lo, hi) and returns where to go on. The verdicts before the cursor stand.
func (d *decider) bury(b abi.Batch, dead *death, lo, hi int, used int64) int {
	n := hi - lo
	d.a.Deaths++
	blamed := 0
	for b.Len() > 0 && blamed < n-1 && b.Verdict(blamed) != 0 {
		blamed++
	}
	if b.Len() > 0 {
		if c := b.Cursor(); c != abi.NoCursor {
			blamed = min(blamed, int(min(c, uint32(n-1))))
		}
	}
	output := false // verdicts before the cursor that need an output, which a dead guest does not have
	for i := range blamed {
		v := b.Verdict(i)
		output = output || v.Action() == abi.Replace || v.Action() == abi.Error && v.Arg() > 0
	}
	if !output {
		for i := 0; i < blamed && !d.stop; i++ {
			d.verdict(lo+i, b.Verdict(i), abi.Batch{}, used/int64(n))
		}
	}
	d.drop()
	if d.stop { // blocked at an earlier record
		return hi
	}
	switch {
	case output:
		if d.run(lo, lo+blamed); d.stop {
			d.undecided(min(lo+blamed, d.a.Decided), nil)
			return hi
		}
	case blamed > 0:
		d.streak, d.answers = 0, true
	}
	if (dead.class == ClassFuel || dead.class == ClassMemory) && n > 1 {
		// Others may have spent what this record lacked. It is asked alone before it is blamed, and what happens then counts; and
		// calls become smaller.
		d.m.chunk.Store(int64(max(1, n/2)))
		return d.chunk(lo+blamed, lo+blamed+1, abi.Size(d.records[lo+blamed:lo+blamed+1]))
	}
	d.streak++
	d.stop = d.streak >= d.limit
	d.fail(lo+blamed, dead, used)
	if d.stop && lo+blamed+1 < len(d.a.Decisions) {
		d.undecided(lo+blamed+1, nil)
	}
	return lo + blamed + 1
}

// accept takes the verdicts of a call that ended well.
func (d *decider) accept(b abi.Batch, lo, hi int, used int64) {
	share := used / int64(hi-lo)
	out, bad := d.output(b, hi-lo)
	hook, decisions := d.call.Hook, d.a.Decisions[lo:hi]
	for i := range decisions {
		v := b.Verdict(i)
		if v.Plain(hook) { // nearly always
			decisions[i].Verdict = v
			continue
		}
		if bad != nil && (v.Action() == abi.Replace || v.Action() == abi.Error && v.Arg() > 0) {
			d.broken(lo+i, bad.message, share)
		} else {
			d.verdict(lo+i, v, out, share)
		}
		if d.stop {
			return
		}
	}
}

// output copies and checks the guest's output. It is empty when there is none.
func (d *decider) output(b abi.Batch, n int) (abi.Batch, *death) {
	ptr, size, _ := b.Output()
	if size == 0 {
		return abi.Batch{}, nil
	}
	l := &d.m.spec.Limits
	in := d.in
	bad := func(format string, args ...any) (abi.Batch, *death) {
		return abi.Batch{}, &death{class: ClassProtocol, message: fmt.Sprintf(format, args...)}
	}
	end := uint64(ptr) + uint64(size)
	switch {
	case uint64(size) > uint64(l.OutBytesMax):
		return bad("output of %d bytes, at most %d", size, l.OutBytesMax)
	case uint64(ptr) < uint64(in.arena)+uint64(in.total) && end > uint64(in.arena):
		return bad("output lies over the batch")
	}
	view, ok := in.mem.Read(ptr, size)
	if !ok {
		return bad("output of %d bytes at %#x, memory ends at %#x", size, ptr, in.mem.Size())
	}
	from := len(d.a.out)
	d.a.out = append(d.a.out, view...)
	out, err := abi.Open(d.a.out[from:])
	switch {
	case err != nil:
		return bad("output is not a batch")
	case out.Len() > n*l.OutPerRecord:
		return bad("output of %d records for %d, at most %d", out.Len(), n, n*l.OutPerRecord)
	}
	return out, nil
}

// verdict takes one verdict, checked.
func (d *decider) verdict(i int, v abi.Verdict, out abi.Batch, share int64) {
	hook, x := d.call.Hook, &d.a.Decisions[i]
	switch {
	case v == 0:
		d.broken(i, "no verdict for the record", share)
	case !hook.Allowed(v.Action()):
		d.broken(i, fmt.Sprintf("verdict %v (%d) is not allowed in %v", v.Action(), uint8(v.Action()), hook), share)
	case !v.Valid(hook):
		d.broken(i, fmt.Sprintf("verdict %#x with bits that must be zero", uint64(v)), share)
	case v.Action() == abi.Replace:
		if int64(v.Arg()) >= int64(out.Len()) || out.Record(int(v.Arg()), &x.Output) != nil || !x.Output.Headers.Whole() {
			x.Output = abi.Record{}
			d.broken(i, fmt.Sprintf("replace by output record %d of %d, which is missing or damaged", v.Arg(), out.Len()), share)
			return
		}
		x.Verdict = v
	case v.Action() == abi.Route && d.m.spec.Targets != nil && int64(v.Arg()) >= int64(len(d.m.spec.Targets)):
		d.broken(i, fmt.Sprintf("route to target %d of %d", v.Arg(), len(d.m.spec.Targets)), share)
	case v.Action() == abi.Error:
		f := &Failure{Class: ClassError, Code: v.Code(), Message: fmt.Sprintf("error %d", v.Code()), Fuel: share, Digest: d.m.digest}
		var r abi.Record
		if v.Arg() > 0 && int64(v.Arg()) <= int64(out.Len()) && out.Record(int(v.Arg()-1), &r) == nil {
			f.Message = line(string(r.Body), MaxMessage)
		}
		d.policy(i, f)
	default:
		x.Verdict = v
	}
}

// broken fails a record for a rule that the guest broke. The instance is not trusted any more.
func (d *decider) broken(i int, message string, share int64) {
	if d.in != nil {
		d.in.dead = true
	}
	d.policy(i, &Failure{Class: ClassProtocol, Message: line(message, MaxMessage), Fuel: share, Digest: d.m.digest})
}

func (d *decider) fail(i int, dead *death, used int64) {
	d.policy(i, &Failure{Class: dead.class, Code: dead.code, Message: dead.message, Stack: dead.stack, Fuel: used, Digest: d.m.digest})
}

// policy decides a record that the plugin failed on.
func (d *decider) policy(i int, f *Failure) {
	p := &d.m.spec.Policy
	v := abi.NewVerdict(abi.DeadLetter, f.Code, 0)
	switch p.OnError {
	case OnErrorSkip:
		v = pass(d.call.Hook)
	case OnErrorDrop:
		v = abi.NewVerdict(abi.Drop, f.Code, 0)
	case OnErrorRetry:
		if d.records[i].Attempt < p.RetryMax {
			v = abi.NewVerdict(abi.Retry, f.Code, p.RetryDelayMs)
		}
	case OnErrorBlock:
		d.stop = true
		d.undecided(i, nil)
		v = 0
	}
	d.a.Decisions[i].Verdict, d.a.Decisions[i].Failure = v, f
}

// pass is the verdict of a plugin that is not there: the message goes on; a request that nobody made is not sent.
func pass(h abi.Hook) abi.Verdict {
	if h == abi.Prepare {
		return abi.NewVerdict(abi.Drop, 0, 0)
	}
	return abi.NewVerdict(abi.Keep, 0, 0)
}
