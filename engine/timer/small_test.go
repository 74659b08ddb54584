package timer

import (
	"testing"

	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// However many loose runs come, and stay, an entry is written again some ten times and not once for every few runs, and the
// number of runs stays what a lane may have.
func TestCompactionIsAmortized(t *testing.T) {
	const most, flushes = 64, 50_000
	var runs []*runSource
	written, least := 0, 1<<30
	for range flushes {
		runs = append(runs, &runSource{run: Run{{Count: 1}}})
		for len(runs) > most {
			chosen := small(runs)
			if len(chosen) < 2 {
				t.Fatalf("%d of %d runs are compacted", len(chosen), len(runs))
			}
			least = min(least, len(chosen))
			total := 0
			gone := map[*runSource]bool{}
			for _, r := range chosen {
				total += r.count()
				gone[r] = true
			}
			kept := runs[:0]
			for _, r := range runs {
				if !gone[r] {
					kept = append(kept, r)
				}
			}
			runs = append(kept, &runSource{run: Run{timerlog.Ref{Count: total}}})
			written += total
		}
	}
	if times := float64(written) / flushes; times > 12 {
		t.Errorf("an entry was written %.1f times", times)
	}
	t.Logf("%.1f times, %d runs in the end, at least %d at once", float64(written)/flushes, len(runs), least)
}
