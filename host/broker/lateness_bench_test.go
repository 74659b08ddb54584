package broker_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/host/broker"
)

// BenchmarkLateness puts 2,000 messages a second that are due two seconds later, beside TIDEWHEEL_WAITING (200,000) that
// wait for days, for TIDEWHEEL_SECONDS (3), and reads them as they come: how late they are, from the due time to the moment
// at which a reader has them, beside what a sync of the same disk takes. It does so once: run it with -benchtime 1x.
//
//	go test ./host/broker -run xxx -bench Lateness -benchtime 1x
func BenchmarkLateness(b *testing.B) {
	waiting, seconds := number(b, "TIDEWHEEL_WAITING", 200_000), number(b, "TIDEWHEEL_SECONDS", 3)
	root, err := fsadapter.OpenRoot(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	br, err := broker.Open(broker.Env{FS: fsadapter.New(root)}, ".", broker.Options{Engine: engine.Options{Reserve: -1}})
	if err != nil {
		b.Fatal(err)
	}
	defer br.Close()
	fillWaiting(b, br, waiting)
	p50, p99 := syncTime(b)
	late := steady(b, br, 2000, seconds)
	slices.Sort(late)
	b.ReportMetric(ms(late[len(late)/2]), "late_p50_ms")
	b.ReportMetric(ms(late[len(late)*99/100]), "late_p99_ms")
	b.ReportMetric(ms(late[len(late)-1]), "late_max_ms")
	b.ReportMetric(ms(p50), "fsync_p50_ms")
	b.ReportMetric(ms(p99), "fsync_p99_ms")
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func number(b *testing.B, name string, fallback int) int {
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return n
}

// fillWaiting stores messages that are due in one to six days, from four producers.
func fillWaiting(b *testing.B, br *broker.Broker, count int) {
	var producers sync.WaitGroup
	for p := range 4 {
		producers.Go(func() {
			batch := make([]broker.Message, 500)
			for n := p * 500; n < count; n += 4 * 500 {
				for i := range batch {
					due := br.NowMs() + 24*3600_000 + int64(n+i)*7919%(5*24*3600_000)
					batch[i] = broker.Message{Topic: "waiting", At: broker.At(due), Body: make([]byte, 200)}
				}
				receipts, err := br.PutBatch(b.Context(), batch)
				if err != nil {
					b.Error(err)
					return
				}
				if receipts[0].Err != nil {
					b.Error(receipts[0].Err)
					return
				}
			}
		})
	}
	producers.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// steady puts so many messages a second and returns how late each was.
func steady(b *testing.B, br *broker.Broker, perSecond, seconds int) (late []time.Duration) {
	count := perSecond * seconds
	go func() {
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		batch := make([]broker.Message, perSecond/200)
		for n := 0; n < count; n += len(batch) {
			<-ticker.C
			for i := range batch {
				batch[i] = broker.Message{Topic: "steady", Pin: true, At: broker.In(2 * time.Second), Body: make([]byte, 200)}
			}
			if _, err := br.PutBatch(b.Context(), batch); err != nil {
				b.Error(err)
				return
			}
		}
	}()
	if err := br.DefineTopic(b.Context(), "steady", 1); err != nil {
		b.Fatal(err)
	}
	next := int64(0)
	var p broker.Pulled
	for len(late) < count {
		req := broker.PullRequest{Topic: "steady", From: []broker.QueueOffset{{Queue: 0, Offset: next}}, MaxCount: 512, Wait: 10 * time.Second}
		if err := br.Pull(b.Context(), req, &p); err != nil {
			b.Fatal(err)
		}
		now := time.Now()
		for _, m := range p.Queues[0].Messages {
			d := now.Sub(time.UnixMilli(m.DueMs))
			if d < 0 {
				b.Fatalf("a message is %v early", -d)
			}
			late = append(late, d)
		}
		next = p.Queues[0].Next
	}
	return late
}

// syncTime is what the disk itself takes to sync a page.
func syncTime(b *testing.B) (p50, p99 time.Duration) {
	f, err := os.Create(filepath.Join(b.TempDir(), "page"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var times []time.Duration
	for range 500 {
		if _, err := f.WriteAt(make([]byte, 4096), 0); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times[len(times)/2], times[len(times)*99/100]
}
