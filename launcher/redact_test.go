package launcher_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/logbook"
)

// A redaction that ends its goroutine undoes no run, and takes no line from the log.
func TestARedactionMayEndItsGoroutine(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	cfg := r.config()
	cfg.Log, cfg.Concurrency = slog.New(logbook.JSON(&r.log, slog.LevelDebug)), 1
	cfg.Logging = launcher.Logging{
		Args:        true,
		Redact:      func(string, json.RawMessage) json.RawMessage { runtime.Goexit(); return nil },
		RedactError: func(string, error) string { runtime.Goexit(); return "" },
	}
	l := r.build(cfg)
	l.Handle("A", func(context.Context, *job.Job) error { return nil }, launcher.Class{})
	l.Handle("Fails", func(context.Context, *job.Job) error { return errors.New("secret") }, launcher.Class{})
	r.push("A", "[1]")
	r.push("Fails", "[2]")
	r.push("A", "[3]")
	r.start(l)
	r.eventually("all runs", func() bool { return r.counter(r.keys.Processed()) == "3" })
	require.Equal(t, "1", r.counter(r.keys.Failed()))
	require.Regexp(t, `"class":"Fails".*"message":"run failed"`, r.log.String())
	require.Regexp(t, `"class":"A".*"message":"run"`, r.log.String())
	require.NotContains(t, r.log.String(), "secret")
}
