package enginetest

import (
	"syscall"
	"time"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

// wrapFaulty is SimConfig.Wrap for a disk that fails at times. A new life of the engine finds it well.
func (s *Sim) wrapFaulty(disk *crashfs.FS) vfs.FS {
	s.sick = faultfs.New(disk)
	return s.sick
}

// opFault lets one of the next operations fail, or all from there on.
func opFault(s *Sim, a, b int) {
	if s.sick == nil {
		return
	}
	rule := faultfs.Rule{Nth: 1 + int64(a%64), Sticky: b%4 == 0, Err: syscall.EIO}
	switch b / 4 % 6 {
	case 0:
		rule.Err = syscall.ENOSPC
	case 1:
		rule.Op, rule.Err = faultfs.Create, syscall.EMFILE
	case 2:
		rule.Op, rule.Short = faultfs.Write, a
	case 3:
		rule.Op = faultfs.Read
	case 4:
		rule.Op, rule.Path = faultfs.Any, []string{"checkpoint/*", "timerlog/*/*/*", "consumequeue/*/*/*", "schedule/*/*"}[a%4]
	}
	s.cover["fault"]++
	s.unwell()
	s.sick.Add(rule)
}

// opFull leaves some room on the disk, or none.
func opFull(s *Sim, a, b int) {
	if s.sick == nil {
		return
	}
	s.cover["full disk"]++
	s.unwell()
	s.FS.SetQuota(s.FS.Used() + int64(a%16)*int64(b)*16)
}

// unwell says that from now on the engine has reasons to fail.
func (s *Sim) unwell() { s.Failing, s.Model.Faulty, s.Model.Lenient = true, true, true }

// opHeal mends the disk. An engine that gave up is opened again; any other goes on, and must soon be as if nothing had
// been.
func opHeal(s *Sim, a, _ int) {
	if s.sick == nil || !s.Failing {
		return
	}
	s.FS.SetQuota(0)
	s.sick.Clear()
	if !s.stuck() {
		s.doJobs()
		s.Clock.Pass(20 * time.Second) // those that failed are tried again
		s.Settle()
	}
	if s.stuck() {
		s.cover["gave up"]++
		switch a % 3 {
		case 0:
			s.Mend(s.FS.Crash(s.rng, policy(a/3)))
		case 1:
			s.Mend(s.FS.Kill())
		default:
			s.Mend(nil)
		}
		return
	}
	s.cover["healed"]++
	s.Failing, s.Model.Faulty, s.Model.Lenient = false, false, false
}
