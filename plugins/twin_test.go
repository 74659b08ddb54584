package plugins_test

import (
	"errors"
	"testing"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// TestTwin: a twin decides as the current generation does, in an instance that begins anew, within the budget; its deaths are not
// the plugin's, and the plugin's other generations and its end wait for it.
func TestTwin(t *testing.T) {
	engines(t, func(t *testing.T, r *plugins.Runtime) {
		s := spec()
		s.Policy.QuarantineAfter, s.Policy.FailOpen = 1, true
		p := load(t, r, plugintest.Scripted(), s)
		twin, err := p.Twin()
		if err != nil {
			t.Fatal(err)
		}
		if used, _ := r.Reserved(); used != 2<<20 {
			t.Errorf("%d bytes are reserved", used)
		}
		for range 3 {
			if got := actions(decide(t, twin, filter, bodies("a", "!", "d"))); got != "keep dead_letter(trap) drop:7" {
				t.Error(got)
			}
		}
		if x := p.Stats(); x.State != plugins.Active || x.Records != 0 || x.Deaths != 0 || len(p.Logs()) != 0 {
			t.Errorf("%+v", x)
		}
		if twin.Module().Digest() != p.Module().Digest() {
			t.Error("it is of another file")
		}
		closed := make(chan error)
		go func() { closed <- p.Close() }()
		if got := actions(decide(t, twin, filter, bodies("d"))); got != "drop:7" {
			t.Error(got)
		}
		if err := twin.Close(); err != nil {
			t.Error(err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if used, _ := r.Reserved(); used != 0 {
			t.Errorf("%d bytes are reserved", used)
		}
		if _, err := p.Twin(); !errors.Is(err, plugins.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestTwinGenerations: a twin of a generation that others have followed still decides, and that one is closed after it.
func TestTwinGenerations(t *testing.T) {
	r := open(t, plugins.Options{MemoryTotal: 2 << 20})
	p := load(t, r, plugintest.Scripted(), spec())
	twin, err := p.Twin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Twin(); !errors.Is(err, plugins.ErrBudget) {
		t.Errorf("a third instance: %v", err)
	}
	for range 3 {
		m, err := r.Load(ctx, verdicts(1), spec())
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Swap(m); err != nil {
			t.Fatal(err)
		}
	}
	if got := actions(decide(t, twin, filter, bodies("a", "d"))); got != "keep drop:7" {
		t.Error(got)
	}
	if got := actions(decide(t, p, filter, bodies("d"))); got != "keep" {
		t.Error(got)
	}
	if err := twin.Close(); err != nil {
		t.Error(err)
	}
}
