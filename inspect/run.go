package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/job/seal"
)

// A Run is one job that a process runs, as it reported last.
type Run struct {
	// Thread is the process' own name for the thread that runs it.
	Thread string `json:"thread"`
	// Class is the display name: the class that an adapter's job wraps, if there is one.
	Class string    `json:"class"`
	JID   string    `json:"jid"`
	Queue string    `json:"queue"`
	Since time.Time `json:"since,omitzero"`
	// Args is the beginning of its arguments, as they may be shown (see Entry.Args): JSON, cut after 400 bytes,
	// because a status has a thousand runs, and the arguments of each may have a megabyte. The JSON of a run is
	// without it.
	Args string `json:"-"`
	// Elapsed is how long it has been running; the start is known to the second.
	Elapsed Seconds `json:"elapsed_seconds"`
	// Overdue is how long ago its context ended, by its timeout or by a cancellation, while the handler still
	// runs; zero for a run in time, and for Sidekiq's.
	Overdue Seconds `json:"overdue_seconds"`
}

// maxOverdue bounds Overdue in seconds, so that a time.Duration holds it; no worker writes more.
const maxOverdue = 1e9

// runs fills in the running jobs of a page of processes. Sidekiq wrote them under another name until 6.4.1.
// runs reads that name only for busy processes without the new one, because Belay writes both.
func (i *Inspector) runs(ctx context.Context, r *reading, processes []Process, now time.Time) {
	ask := make([]*Process, len(processes))
	for n := range processes {
		ask[n] = &processes[n]
	}
	for _, key := range []func(string) string{i.keys.Work, i.keys.Workers} {
		var calls []driver.Call
		for _, p := range ask {
			calls = append(calls, driver.Command("HGETALL", key(p.Identity)))
		}
		for n, reply := range i.do(ctx, calls) {
			p := ask[n]
			p.Running = i.readRuns(r, p.Identity, r.texts("the jobs of "+p.Identity, reply), now)
		}
		ask = slices.DeleteFunc(ask, func(p *Process) bool { return p.Busy == 0 || len(p.Running) > 0 })
	}
}

// readRuns reads a work hash, threads and entries in turn, and sorts the oldest run first.
func (i *Inspector) readRuns(r *reading, identity string, parts []string, now time.Time) []Run {
	runs := []Run{}
	for n := 0; n+1 < len(parts); n += 2 {
		run, err := i.readRun(parts[n], parts[n+1], now)
		if err != nil {
			r.problem("process %s: a running job cannot all be read: %v", identity, err)
		}
		runs = append(runs, run)
	}
	slices.SortFunc(runs, func(a, b Run) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Thread, b.Thread))
	})
	return runs
}

// maxRunArgs bounds Run.Args, in bytes.
const maxRunArgs = 400

func (i *Inspector) readRun(thread, entry string, now time.Time) (Run, error) {
	var fields struct {
		Queue   string          `json:"queue"`
		Payload json.RawMessage `json:"payload"`
		RunAt   float64         `json:"run_at"`
		Overdue float64         `json:"overdue"`
	}
	run := Run{Thread: thread}
	if err := json.Unmarshal([]byte(entry), &fields); err != nil {
		return run, err
	}
	run.Queue, run.Since = bounded(fields.Queue), instant(fields.RunAt)
	run.Elapsed = since(run.Since, now)
	run.Overdue = Seconds{time.Duration(min(max(fields.Overdue, 0), maxOverdue) * float64(time.Second))}
	payload := string(fields.Payload)
	var text string
	if json.Unmarshal(fields.Payload, &text) == nil { // JSON within JSON; an object before Sidekiq 6.0.2
		payload = text
	}
	parsed, err := job.Parse(payload)
	if err != nil {
		return run, err
	}
	run.Class, run.JID = parsed.DisplayClass(), parsed.JID()
	if len(run.JID) > maxName { // see Entry.ID
		run.JID = unreadableID(payload)
	}
	args, _ := i.mask.of(json.RawMessage(seal.Shown(parsed)), run.Class, parsed.Class(), parsed.Wrapped())
	if run.Args = string(args); len(run.Args) > maxRunArgs { // a copy: the status may be kept, and the payload is large
		run.Args = strings.ToValidUTF8(strings.Clone(run.Args[:maxRunArgs]), "") + "…"
	}
	return run, nil
}
