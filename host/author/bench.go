package author

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/guest/golden"
)

// emptyHex is a plugin that keeps every record; see the test for what it is made of.
const emptyHex = "" +
	"0061736d0100000001090260000060017f017f030807000101010101010503010002076108066d656d6f727902000874775f6162695f310000087477" +
	"5f616c6c6f6300010a74775f7075626c69736800020974775f66696c74657200030c74775f7472616e73666f726d00040974775f726573756c740005" +
	"0a74775f7072657061726500060a91050702000b2a01017f200041ffff076a41107622013f004b044020013f006b4000417f46044041000f0b0b4180" +
	"80040b7909017f017f017f017f017f017f017f017f017e20002802082102200020002802186a2103200020002802146a210402400340200120024f0d" +
	"012000200136022c200020032802386a2105200328023c21064201210920042009370300200141016a2101200341c0006a2103200441086a21040c00" +
	"0b0b41000b7909017f017f017f017f017f017f017f017f017e20002802082102200020002802186a2103200020002802146a21040240034020012002" +
	"4f0d012000200136022c200020032802386a2105200328023c21064201210920042009370300200141016a2101200341c0006a2103200441086a2104" +
	"0c000b0b41000b7909017f017f017f017f017f017f017f017f017e20002802082102200020002802186a2103200020002802146a2104024003402001" +
	"20024f0d012000200136022c200020032802386a2105200328023c21064201210920042009370300200141016a2101200341c0006a2103200441086a" +
	"21040c000b0b41000b7909017f017f017f017f017f017f017f017f017e20002802082102200020002802186a2103200020002802146a210402400340" +
	"200120024f0d012000200136022c200020032802386a2105200328023c21064201210920042009370300200141016a2101200341c0006a2103200441" +
	"086a21040c000b0b41000b7909017f017f017f017f017f017f017f017f017e20002802082102200020002802186a2103200020002802146a21040240" +
	"0340200120024f0d012000200136022c200020032802386a2105200328023c21064202210920042009370300200141016a2101200341c0006a210320" +
	"0441086a21040c000b0b41000b"

// Cost is what a batch of one size costs.
type Cost struct {
	Batch   int     // records of a call
	Ns      float64 // per record, the encoding of the batch and the checks of the answer included
	Fuel    int64   // per record
	EmptyNs float64 // per record, of a plugin that keeps everything, measured in turns with this one
}

// Ratio is how many times as long as an empty plugin it takes.
func (c Cost) Ratio() float64 { return c.Ns / c.EmptyNs }

// BatchSizes are those that Bench measures.
var BatchSizes = []int{1, 64, 256}

// ErrFails is returned by Bench when the plugin can't decide a record: a time that is mostly new instances says nothing.
var ErrFails = errors.New("the plugin fails on a record")

// Bench measures a plugin over records, which are repeated to fill batches, for about the given time for each size. The empty
// plugin runs in the same process in turns, so that a busy machine slows both.
func Bench(ctx context.Context, s *Session, hook abi.Hook, records []golden.Record, sizes []int, each time.Duration) ([]Cost, error) {
	module, err := hex.DecodeString(emptyHex)
	if err != nil {
		return nil, err
	}
	empty, err := Open(ctx, module, Setting{MemoryMax: s.Module().Spec().Limits.MemoryMax})
	if err != nil {
		return nil, err
	}
	defer empty.Close()
	var costs []Cost
	for _, n := range sizes {
		batch := make([]abi.Record, n)
		for i := range batch {
			batch[i] = records[i%len(records)].ABI(hook)
		}
		c, err := s.cost(ctx, empty, hook, records[0].NowMs, batch, each)
		if err != nil {
			return nil, err
		}
		costs = append(costs, c)
	}
	return costs, nil
}

// rounds is how often the two plugins take turns.
const rounds = 10

// cost measures one batch.
func (s *Session) cost(ctx context.Context, empty *Session, hook abi.Hook, nowMs int64, batch []abi.Record, each time.Duration) (Cost, error) {
	c := Cost{Batch: len(batch)}
	for _, p := range []*Session{s, empty} { // warm, and without failures
		for range 3 {
			if err := p.decide(ctx, hook, nowMs, batch); err != nil {
				return c, err
			}
		}
		for i := range batch {
			if f := p.answer.Decisions[i].Failure; f != nil {
				return c, fmt.Errorf("%w: record %d of the batch: %v: %s", ErrFails, i+1, f.Class, f.Message)
			}
		}
	}
	c.Fuel = s.answer.Fuel / int64(len(batch))
	var times [2]time.Duration
	var calls [2]int
	for range rounds {
		for k, p := range []*Session{s, empty} {
			began := time.Now()
			for ; time.Since(began) < each/(2*rounds); calls[k]++ {
				if err := p.decide(ctx, hook, nowMs, batch); err != nil {
					return c, err
				}
			}
			times[k] += time.Since(began)
			p.log.take()
		}
	}
	c.Ns = float64(times[0].Nanoseconds()) / float64(calls[0]*len(batch))
	c.EmptyNs = float64(times[1].Nanoseconds()) / float64(calls[1]*len(batch))
	return c, nil
}

// Sample are records for a plugin without tests of its own: JSON of 1 KiB with a key and two properties.
func Sample(n int) []golden.Record {
	filler := make([]byte, 900)
	for i := range filler {
		filler[i] = 'a' + byte(i%26)
	}
	all := make([]golden.Record, n)
	for i := range all {
		all[i] = golden.Record{
			ID: uint64(i + 1), Topic: "orders", Key: fmt.Sprintf("order-%d", i), Tag: "unpaid", NowMs: golden.DefaultNowMs, Status: 200,
			Properties: map[string]string{"tenant": "acme", "trace": fmt.Sprintf("%032x", i)},
			Body:       fmt.Appendf(nil, `{"id":%d,"amount":%d,"paid":%v,"note":%q}`, i, i*100, i%2 == 0, filler),
		}
	}
	return all
}
