package launcher_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"runtime"
	"testing"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/logbook"
)

func TestARedactionThatEndsItsGoroutineUndoesNoRun(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	cfg := r.config()
	cfg.Log, cfg.Concurrency = slog.New(logbook.JSON(&r.log, slog.LevelDebug)), 1
	cfg.Logging = launcher.Logging{Args: true, Redact: func(string, json.RawMessage) json.RawMessage {
		runtime.Goexit()
		return nil
	}}
	l := r.build(cfg)
	l.Handle("A", func(context.Context, *job.Job) error { return nil }, launcher.Class{})
	r.push("A", "[1]")
	r.push("A", "[2]")
	r.start(l)
	r.eventually("both runs", func() bool { return r.counter(r.keys.Processed()) == "2" })
	if failed := r.counter(r.keys.Failed()); failed != "" && failed != "0" {
		t.Errorf("%s runs count as failed", failed)
	}
}
