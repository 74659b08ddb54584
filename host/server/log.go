package server

import (
	"io"
	"log/slog"

	"github.com/tidewheel/tidewheel/host/config"
)

// NewLog is the log that a configuration asks for, and its level, which Reload changes.
func NewLog(w io.Writer, cfg *config.Config) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(cfg.Logging.Slog())
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Logging.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts)), level
	}
	return slog.New(slog.NewTextHandler(w, opts)), level
}
