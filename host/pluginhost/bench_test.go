package pluginhost_test

import (
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// BenchmarkDue asks one plugin, and two, about batches of due messages of 1 KiB: what the host adds to a guest that does next
// to nothing.
func BenchmarkDue(b *testing.B) {
	body := string(make([]byte, 1024))
	for _, asked := range []int{1, 2} {
		for _, n := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("plugins=%d/batch=%d", asked, n), func(b *testing.B) {
				fs := afero.NewMemMapFs()
				doc := fmt.Sprintf("data_dir = %q\n", b.TempDir())
				for i := range asked {
					name := string(rune('a' + i))
					doc += table(name, "instances = 1")
					if err := afero.WriteFile(fs, "/etc/plugins/"+name+".wasm", byFirst(verdict(abi.Keep, 0, 0), nil), 0o644); err != nil {
						b.Fatal(err)
					}
				}
				cfg, err := config.Parse(config.Source{File: "/etc/t.toml"}, []byte(doc))
				if err != nil {
					b.Fatal(err)
				}
				h, err := pluginhost.Open(ctx, pluginhost.Options{Config: cfg, FS: fs, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
				if err != nil {
					b.Fatal(err)
				}
				defer h.Close()
				bodies := make([]string, n)
				for i := range bodies {
					bodies[i] = body
				}
				list := messages(bodies...)
				b.ReportAllocs()
				for b.Loop() {
					if ds, err := h.Due(ctx, "orders", list); err != nil || len(ds) != n {
						b.Fatal(len(ds), err)
					}
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}

// BenchmarkStages is the question that every put and every new topic asks, with ten plugins of other topics.
func BenchmarkStages(b *testing.B) {
	fs := afero.NewMemMapFs()
	doc := fmt.Sprintf("data_dir = %q\n[plugins]\nmemory_total = \"1GiB\"\n", b.TempDir())
	for i := range 10 {
		doc += table(fmt.Sprintf("p%d", i), "fail = \"open\"")
	}
	cfg, err := config.Parse(config.Source{File: "/etc/t.toml"}, []byte(doc))
	if err != nil {
		b.Fatal(err)
	}
	h, err := pluginhost.Open(ctx, pluginhost.Options{Config: cfg, FS: fs})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	b.ReportAllocs()
	for b.Loop() {
		if h.Stages("mail-outgoing") {
			b.Fatal("it is staged")
		}
	}
}
