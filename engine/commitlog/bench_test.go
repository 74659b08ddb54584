package commitlog_test

import (
	"testing"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// benchLog is a log on the disk of the machine, ready for batches.
func benchLog(b *testing.B, opts commitlog.Options) *tester {
	root, err := fsadapter.OpenRoot(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	x := newTester(b, fsadapter.New(root), opts)
	x.mustOpen()
	must(b, x.put(10))
	must(b, x.flush())
	b.Cleanup(func() { x.log.Close() })
	return x
}

// appendBatch appends a batch of n records without remembering them.
func appendBatch(b *testing.B, x *tester, n int, payload []byte) {
	bytes := n * (commitlog.RecordHeaderSize + len(payload))
	for x.log.Room(bytes) != commitlog.Fits {
		switch x.log.Room(bytes) {
		case commitlog.NeedsState:
			must(b, x.state(1))
		case commitlog.NeedsSeal:
			must(b, x.seal())
		case commitlog.NotReady:
			must(b, x.turn())
			segs := x.log.Segments()
			must(b, x.log.DropBefore(segs[max(len(segs)-2, 0)].Base)) // so that the disk does not fill up
		}
		x.all = x.all[:0]
	}
	w, err := x.log.Begin(bytes, commitlog.BatchInfo{AppendMs: 1, LogMs: 1})
	must(b, err)
	for range n {
		w.Open(kindMessage, 0)
		w.Buf = append(w.Buf, payload...)
		w.Close()
	}
	w.Finish(0)
}

// BenchmarkAppend is encoding and writing, without fsync, in batches of 100 records of 200 bytes.
func BenchmarkAppend(b *testing.B) {
	x := benchLog(b, commitlog.Options{Reserve: -1})
	p := payload(1, 200)
	b.SetBytes(100 * 200)
	b.ReportAllocs()
	for b.Loop() {
		appendBatch(b, x, 100, p)
		must(b, x.log.Commit())
	}
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkAppendSync is one batch of 100 records of 200 bytes and one fsync, as a lone producer waits for it.
func BenchmarkAppendSync(b *testing.B) {
	x := benchLog(b, commitlog.Options{Reserve: -1})
	p := payload(1, 200)
	b.ReportAllocs()
	for b.Loop() {
		appendBatch(b, x, 100, p)
		must(b, x.flush())
	}
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkReadRecord(b *testing.B) {
	for name, tail := range map[string]int{"tail": 64 << 20, "file": 4 << 10} {
		b.Run(name, func(b *testing.B) {
			x := benchLog(b, commitlog.Options{TailSize: tail, Reserve: -1})
			for range 1000 {
				must(b, x.put(200, 200, 200, 200))
			}
			must(b, x.flush())
			var buf []byte
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				e := x.all[i%(len(x.all)-100)]
				i++
				if len(e.recs) == 0 {
					continue
				}
				var err error
				_, buf, err = x.log.ReadRecord(e.recs[0].pos, e.recs[0].size, buf)
				must(b, err)
			}
		})
	}
}

// BenchmarkRecover is a scan of 64 MiB, as after a crash at the worst moment before a checkpoint.
func BenchmarkRecover(b *testing.B) {
	x := benchLog(b, commitlog.Options{Reserve: -1})
	p := payload(1, 200)
	for x.log.End() < 64<<20 {
		appendBatch(b, x, 100, p)
		must(b, x.log.Commit())
	}
	_, err := x.log.Sync()
	must(b, err)
	b.SetBytes(int64(x.log.End()))
	b.ReportAllocs()
	for b.Loop() {
		must(b, x.log.Close())
		x.log, err = commitlog.Open(x.fs, logDir, logID, x.opts)
		must(b, err)
		_, err = x.log.Recover(commitlog.Start{}, func(batch *commitlog.Batch) error {
			for rs := batch.Records(); ; {
				if _, ok, err := rs.Next(); err != nil || !ok {
					return err
				}
			}
		})
		must(b, err)
	}
}

// BenchmarkOpenSmall is what a crash sweep does ten thousand times: a log of a few segments of 16 KiB.
func BenchmarkOpenSmall(b *testing.B) {
	for name, fsys := range map[string]vfs.FS{"crashfs": crashfs.New(crashfs.Options{}), "memmapfs": fsadapter.New(afero.NewMemMapFs())} {
		b.Run(name, func(b *testing.B) {
			x := newTester(b, fsys, small)
			x.mustOpen()
			x.fill(3)
			b.ReportAllocs()
			for b.Loop() {
				must(b, x.log.Close())
				var err error
				x.log, err = commitlog.Open(fsys, logDir, logID, small)
				must(b, err)
				_, err = x.log.Recover(commitlog.Start{}, func(*commitlog.Batch) error { return nil })
				must(b, err)
			}
		})
	}
}
