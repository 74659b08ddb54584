package engine

import (
	"fmt"

	"github.com/tidewheel/tidewheel/engine/commitlog"
)

// Rebuild makes all files of a data directory that nobody has open again from its CommitLog, and a checkpoint, so that
// the next Open is quick. It costs one read of the log; Options.Progress hears of it. Nothing is delivered.
func Rebuild(env Env, dir string, opts Options) error {
	e, err := prepare(env, dir, opts)
	if err != nil {
		return err
	}
	err = e.identify(false)
	if err == nil {
		err = e.recoverAll(false)
	}
	if err == nil {
		err = e.checkpointNow()
	}
	e.closed.Store(true)
	cerr := e.closeFiles()
	if err != nil {
		return err
	}
	return cerr
}

// checkpointNow makes a checkpoint of a store that was just recovered.
func (e *Engine) checkpointNow() error {
	e.ck.wanted = true
	e.readClocks()
	e.beginCheckpoint()
	s := e.ck.pending
	if s == nil {
		return nil
	}
	if err := s.run(); err != nil {
		return fmt.Errorf("engine: rebuild: checkpoint: %w", err)
	}
	e.installCheckpoint(s)
	return nil
}

// Repair makes a directory whose CommitLog is damaged one that opens: what cannot be read is declared lost by hole
// batches, and all other files are made again. It returns the lost ranges: messages in them are gone, whoever had them
// acknowledged. Messages behind a hole are kept; those that were waiting in it are not delivered. It is an operator's
// decision and never happens by itself.
func Repair(env Env, dir string, opts Options) ([]commitlog.Lost, error) {
	e, err := prepare(env, dir, opts)
	if err != nil {
		return nil, err
	}
	err = e.identify(false)
	var lost []commitlog.Lost
	if err == nil {
		lost, err = commitlog.Repair(e.fs, e.path(logDir), e.meta.LogID, commitlog.Start{})
	}
	e.closed.Store(true)
	cerr := e.closeFiles()
	if err != nil {
		return lost, fmt.Errorf("engine: repair: %w", err)
	}
	if cerr != nil {
		return lost, cerr
	}
	return lost, Rebuild(env, dir, opts)
}
