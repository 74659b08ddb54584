package engine_test

import (
	"testing"

	"github.com/tidewheel/tidewheel/engine"
)

// BenchmarkSettle takes messages of a stage out of it by 256, all of them kept: what a Tick of as many costs (tick) beside what
// their Settle costs (settle), per message. Both append and write; no sync.
func BenchmarkSettle(b *testing.B) {
	const chunk, most = 256, 1 << 17
	for _, what := range []string{"tick", "settle"} {
		b.Run(what, func(b *testing.B) {
			s := newBench(b, engine.Options{Reserve: -1, Queues: 1, FireChunk: chunk, Stage: func(string) bool { return true }})
			b.ReportAllocs()
			b.StopTimer()
			var p engine.Pulled
			var offset int64
			n := 0
			for n < b.N {
				s.fill(benchPut{level: 5}, most, 16)
				s.now += 3 * 3_600_000
				for left := most; what == "tick" && left > 0 && n < b.N; {
					b.StartTimer()
					status := s.Tick()
					err := s.Commit()
					b.StopTimer()
					if err != nil || status.Err != nil {
						b.Fatal(err, status.Err)
					}
					n, left = n+status.Fired, left-status.Fired
					s.rest(b, &status)
				}
				s.drain()
				c := &engine.Settle{Group: engine.StageGroup, Topic: "%STAGE%orders", Digests: make([][32]byte, 1)}
				for what == "settle" && n < b.N {
					if err := s.Pull(engine.PullRequest{Topic: c.Topic, Offset: offset, MaxCount: chunk}, &p); err != nil {
						b.Fatal(err)
					}
					if len(p.Messages) == 0 {
						break
					}
					c.Items = c.Items[:0]
					for i := range p.Messages {
						it := p.Messages[i].Settled()
						it.Action, it.Plugin, it.Keep = keep, 0, true
						c.Items = append(c.Items, it)
					}
					b.StartTimer()
					s.append(b, []engine.Command{c})
					b.StopTimer()
					n, offset = n+len(c.Items), p.Next
				}
			}
			perSecond(b, n)
		})
	}
}

// rest does what a Tick asks for beside the writer.
func (s *bench) rest(b *testing.B, status *engine.Status) {
	if len(status.Jobs) == 0 && !status.Blocked {
		return
	}
	pos, err := s.Sync()
	if err != nil {
		b.Fatal(err)
	}
	s.Release(pos)
	for _, job := range status.Jobs {
		_ = job.Run() // Install hears of it
		for !s.Install(job) {
		}
	}
}
