package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/demo"
	"github.com/tidewheel/tidewheel/host/httpapi"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

const (
	deliveryKills = 6
	deliverySlots = 8 // requests at once
)

// TestKillNineDelivery kills a real server with a delivery plugin with SIGKILL, several times in the middle of its requests,
// and holds its receiver's book against what was put: each message that was acknowledged has come, also those that had to be
// tried twice, and what came again after a kill is no more than what can have been on its way at that moment. In each queue one
// request hangs over all kills, so that nothing above it could be told by an offset that is committed.
func TestKillNineDelivery(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	book := &deliveryBook{t: t, release: make(chan struct{}), lives: map[string][]int{}, flaky: map[string]bool{}, put: map[string]bool{}}
	receiver := httptest.NewServer(book)
	defer receiver.Close()
	dir := t.TempDir()
	config := deliveryConfig(t, dir, receiver.URL)
	r := rand.New(rand.NewPCG(seed, 0))
	launch := func() (*demo.Process, *client.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		p, err := demo.Launch(ctx, program(), filepath.Join(dir, "data"), "-c", config)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(p.URL)
		if err != nil {
			t.Fatal(err)
		}
		return p, c
	}
	kills := deliveryKills
	if testing.Short() {
		kills = 2
	}
	book.kills = kills
	for life := range kills {
		p, c := launch()
		if life == 0 {
			for i := range 4 {
				book.store(c, "orders", fmt.Sprintf("%s/hang/%d", receiver.URL, i))
			}
		}
		var producers sync.WaitGroup
		for n := range 3 {
			producers.Go(func() {
				for i := 0; ; i++ {
					what := "good"
					if i%10 == 9 {
						what = "flaky"
					}
					if !book.store(c, "orders", fmt.Sprintf("%s/%s/%d-%d-%d", receiver.URL, what, life, n, i)) {
						return
					}
				}
			})
		}
		select {
		case <-time.After(time.Duration(300+r.IntN(400)) * time.Millisecond):
		case <-p.Ended():
			t.Error(p.Failure())
		}
		p.Kill()
		producers.Wait()
		c.CloseIdle()
		<-time.After(100 * time.Millisecond) // what the dead server has sent is read before the next life is counted
		book.next()
	}
	close(book.release)
	p, c := launch()
	defer c.CloseIdle()
	var group httpapi.Group
	for wait := 0; ; wait++ {
		var err error
		if group, err = c.Group(t.Context(), "plugin-courier"); err != nil {
			t.Fatal(err)
		}
		if group.Lag == 0 && group.Retrying == 0 || wait == 400 {
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	book.judge(group)
	if err := p.Stop(5 * time.Second); err != nil {
		t.Error(err)
	}
	var said bytes.Buffer
	if code := run([]string{"data", "check", filepath.Join(dir, "data")}, bytes.NewReader(nil), io.Discard, &said); code != exitOK {
		t.Errorf("data check exits with %d: %s", code, said.Bytes())
	}
}

// deliveryConfig makes a configuration with the delivery plugin of package plugintest.
func deliveryConfig(t *testing.T, dir, url string) string {
	t.Helper()
	config := filepath.Join(dir, "tidewheel.toml")
	text := fmt.Sprintf(`
[[topic]]
name = "orders"
queues = 4
[[plugin]]
name = "courier"
file = "courier.wasm"
hooks = ["deliver"]
match = ["orders"]
on_error = "dead_letter"
instances = 1
[plugin.limits]
memory_max = "4MiB"
[plugin.capabilities]
egress = [%q]
private_addresses = ["127.0.0.1"]
[plugin.delivery]
concurrency = %d
timeout = "1m"
`, url, deliverySlots)
	if err := os.Mkdir(filepath.Join(dir, "plugins"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "plugins", "courier.wasm"), plugintest.Courier(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// deliveryBook is the receiver: it notes in which lives of the server each id came.
type deliveryBook struct {
	t       *testing.T
	kills   int           // there will be
	release chan struct{} // closed when what hangs may end

	mu    sync.Mutex
	life  int
	lives map[string][]int // by id
	flaky map[string]bool  // ids that were answered with 500
	put   map[string]bool  // ids that were acknowledged
	hangs int
}

// store puts a message; false when the server is gone.
func (b *deliveryBook) store(c *client.Client, topic, body string) bool {
	stored, err := c.Put(context.Background(), topic, httpapi.Envelope{Body: &body})
	if err != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put[stored.ID] = true
	return true
}

func (b *deliveryBook) next() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.life++
}

func (b *deliveryBook) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	id := req.Header.Get("webhook-id")
	_, _ = io.Copy(io.Discard, req.Body) // only then is it noticed that the server is gone
	b.mu.Lock()
	life := b.life
	b.mu.Unlock()
	if strings.HasPrefix(req.URL.Path, "/hang/") {
		b.mu.Lock()
		b.hangs++
		b.mu.Unlock()
		select {
		case <-b.release:
		case <-req.Context().Done():
			return
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if strings.HasPrefix(req.URL.Path, "/flaky/") && !b.flaky[id] {
		b.flaky[id] = true // it comes again, as it should
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	b.lives[id] = append(b.lives[id], life)
}

// judge holds the book against what was put.
func (b *deliveryBook) judge(group httpapi.Group) {
	b.mu.Lock()
	defer b.mu.Unlock()
	missing, again := 0, map[int]int{} // again: ids that came in a life and once more in a later one
	for id := range b.put {
		if len(b.lives[id]) == 0 {
			missing++
		}
	}
	for id, lives := range b.lives {
		for i := 1; i < len(lives); i++ {
			if lives[i] == lives[i-1] {
				b.t.Errorf("message %s was answered with 200 and came again without a kill: %v", id, lives)
			}
			again[lives[i-1]]++
		}
	}
	for life, n := range again {
		if n > deliverySlots {
			b.t.Errorf("%d messages that had come came again after kill %d; at most %d were on their way", n, life+1, deliverySlots)
		}
	}
	b.t.Logf("%d messages put, %d came, %d of them on a second attempt; again after a kill: %v; requests that hung: %d",
		len(b.put), len(b.lives), len(b.flaky), again, b.hangs)
	if missing > 0 || group.Lag != 0 || group.Retrying != 0 {
		b.t.Errorf("%d of %d messages did not come; %+v", missing, len(b.put), group)
	}
	if b.hangs < 2*b.kills || len(b.flaky) == 0 || len(b.put) < 100 {
		b.t.Errorf("the test tests little: %d requests hung, %d came twice, %d messages", b.hangs, len(b.flaky), len(b.put))
	}
}
