package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
)

// profiler writes a profile of what the store's process does under load. Not safe for concurrent use; nil does nothing.
type profiler struct {
	name string
	file *os.File // nil while none is written
	err  error    // of starting
}

// start begins the profile if the step is one that is measured and none has begun. A later step overwrites it.
func (p *profiler) start(step string) {
	if p == nil || p.file != nil || step == stepFill {
		return
	}
	if p.file, p.err = os.Create(p.name); p.err == nil {
		p.err = pprof.StartCPUProfile(p.file)
	}
}

// stop ends the profile and says what went wrong with it.
func (p *profiler) stop() error {
	if p == nil || p.file == nil {
		return nil
	}
	pprof.StopCPUProfile()
	err := errors.Join(p.err, p.file.Close())
	p.file = nil
	if err != nil {
		return fmt.Errorf("bench: profile: %w", err)
	}
	return nil
}
