// Command worker is a worker of the integration tests in Go, for what no program run by belay work --exec can
// do: ignore its end, or have hundreds of jobs in hand at once.
//
//	worker -redis URL -prefix TEXT [-c N] [-ttl 1s] [-beat 200ms] LEDGER [RELEASE]
//
// A job takes as many milliseconds as its second argument says, or until it is cancelled; one of class FailsOnce
// fails in its first run, and one of class Deaf ends when there is a file RELEASE, and heeds nothing else. Each run appends a line to LEDGER when it starts
// and one when it ends, as the program hand does. The result of a tracked job is its jid.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay"
	"github.com/belayq/belay/integration/program"
	"github.com/belayq/belay/job"
)

func main() {
	var f program.Flags
	f.Add()
	most := flag.Int("c", 4, "how many jobs at once")
	ttl := flag.Duration("ttl", time.Second, "how long it counts as alive after a beat")
	beat := flag.Duration("beat", 200*time.Millisecond, "time from one heartbeat to the next")
	flag.Parse()
	program.Exit(f.Work(belay.ServerConfig{
		Heartbeat: *beat, TTL: *ttl, Concurrency: *most, ShutdownTimeout: time.Second, MaxInterruptions: 1000,
	}, work))
}

func work(server *belay.Server) error {
	log := zerolog.New(os.Stderr)
	server.OnStuck(func(run belay.StuckRun) {
		log.Info().Str("jid", run.Job.JID()).Bool("left", run.Left).
			AnErr("because", run.Cause).Msg("stuck run reported")
	})
	server.HandleUnknown(func(ctx context.Context, j *belay.Job) error {
		var args []time.Duration
		_ = json.Unmarshal([]byte(j.ArgsJSON()), &args) // without a second one it takes no time
		run := job.NewJID()
		if err := note("start", j, run); err != nil {
			return err
		}
		for j.Class() == "Deaf" && !program.Exists(flag.Arg(1)) {
			time.Sleep(10 * time.Millisecond)
		}
		if len(args) > 1 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(args[1] * time.Millisecond):
			}
		}
		_ = belay.SetResult(ctx, j.JID()) // of a tracked job
		if err := note("end", j, run); err != nil {
			return err
		}
		if _, again := j.RetryCount(); j.Class() == "FailsOnce" && !again {
			return belay.RetryIn(100*time.Millisecond, errors.New("it fails once"))
		}
		return nil
	})
	return nil
}

// note appends a line about a run.
func note(what string, j *belay.Job, run string) error {
	retries, _ := j.Field("retry_count")
	return program.Note(flag.Arg(0), map[string]any{
		"what": what, "jid": j.JID(), "class": j.Class(), "worker": os.Getpid(), "pid": os.Getpid(), "at": time.Now().UnixNano(),
		"retry_count": retries, "run": run,
	})
}
