package launcher

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

// announce updates the entry of this process among Sidekiq's processes, in the forms that Sidekiq 6, 7 and 8
// read.
func (s *shard) announce(ctx context.Context) error {
	session := s.session.Load()
	if session.Over() {
		return nil
	}
	runs := s.launcher.running(s)
	info, err := json.Marshal(s.processInfo(session.Identity))
	if err != nil {
		return fmt.Errorf("describe the process: %w", err)
	}
	now := announcement{info: string(info), quiet: s.launcher.quiet.Load(), idle: len(runs) == 0}
	fields := []string{
		"beat", job.Stamp(s.clock.Now(), job.Seconds),
		"rss", strconv.Itoa(residentKB()),
		"rtt_us", strconv.FormatInt(time.Duration(s.rtt.Load()).Microseconds(), 10),
	}
	if now.idle && now == s.announced && s.silence() < announceEvery {
		switch since := s.sinceStart() - time.Duration(s.announcedAt.Load()); {
		case since < announceIdleEvery:
			return nil
		case since < announceIdleEvery+announceEvery:
			s.keepAnnounced(session.Identity, fields)
			return nil
		}
	}
	fields = append(fields,
		"info", string(info),
		"busy", strconv.Itoa(len(runs)),
		"quiet", strconv.FormatBool(now.quiet),
		"concurrency", strconv.Itoa(s.launcher.Concurrency()),
	)
	_, err = s.keys.Announce(session.Identity, fields, workEntries(runs)).Do(ctx, s.lanes.chores)
	if err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	s.report.Answered()
	s.announced = now
	s.announcedAt.Store(int64(s.sinceStart()))
	return nil
}

// keepAnnounced gives the next heartbeat the fields that change while the process is idle. No later
// announcement depends on them, so it does not matter which one is written first. If they are not enough, the
// next pass announces everything.
func (s *shard) keepAnnounced(identity string, fields []string) {
	calls, enough := s.keys.KeepAnnounced(identity, fields)
	s.extra.Store(&extra{calls, func(replies []driver.Reply) {
		if enough(replies) {
			s.announcedAt.Store(int64(s.sinceStart()))
		}
	}})
}

// An announcement is what a process has announced of itself. An idle process that would repeat it announces
// itself less often, and by a heartbeat. It does neither while heartbeats are not answered: Alive must know
// whether Redis answers on another connection.
type announcement struct {
	info        string
	quiet, idle bool
}

// processInfo returns the record of the process for Sidekiq's readers, with all keys that any version needs:
// one entry that they cannot read breaks their page for every process.
func (s *shard) processInfo(identity string) map[string]any {
	host, _, _ := strings.Cut(identity, ":")
	weights, capsules := make([]any, 0, 1+len(s.cfg.Capsules)), make(map[string]any, 1+len(s.cfg.Capsules))
	orders := s.launcher.queues.orders()
	for i, capsule := range s.cfg.allCapsules() {
		mode, byQueue := "weighted", orders[i].Weights()
		if orders[i].Strict() {
			mode = "strict"
		}
		weights = append(weights, byQueue)
		capsules[capsule.Name] = map[string]any{"concurrency": capsule.Concurrency, "mode": mode, "weights": byQueue}
	}
	about := map[string]any{
		"hostname": host,
		"identity": identity,
		"pid":      os.Getpid(),
		"tag":      s.cfg.Tag,
		"labels":   append([]string{}, s.cfg.Labels...), // never null
		// Raw, because a float without a fraction is not a float to Ruby.
		"started_at":  json.RawMessage(job.Stamp(s.bornAt, job.Seconds)),
		"concurrency": s.launcher.Concurrency(),
		"queues":      append([]string{}, namesOf(orders)...), // never null
		"weights":     weights,
		"capsules":    capsules,
		"version":     "belay " + moduleVersion(),
		"embedded":    false,
	}
	if s.launcher.process != "" {
		about["process"] = s.launcher.process
	}
	return about
}

// moduleVersion returns the version of this module in the running program.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	const path = "github.com/belayq/belay"
	for _, module := range append(info.Deps, &info.Main) {
		if module.Path == path {
			return module.Version
		}
	}
	return "unknown"
}

// A CurrentRun describes a job that is being run.
type CurrentRun struct {
	Job       *job.Job
	Queue     string
	StartedAt time.Time // by this machine's clock
	Processor int
	// Goroutine is the number of the handler's goroutine in the text of a dump.
	Goroutine int64
	// Overdue is how long ago the run's context was seen to have ended; zero if it has not ended.
	Overdue time.Duration
}

// Running returns the current runs. There are none before Run has registered the process.
func (l *Launcher) Running() []CurrentRun { return l.running(nil) }

// running returns the current runs of a shard, or of all shards if of is nil.
func (l *Launcher) running(of *shard) []CurrentRun {
	pool := l.pool.Load()
	if pool == nil {
		return nil
	}
	var runs []CurrentRun
	for _, p := range pool.processors {
		if r := p.current.Load(); r != nil && (of == nil || r.shard == of) {
			runs = append(runs, r.describe())
		}
	}
	return runs
}

func (r *run) describe() CurrentRun {
	return CurrentRun{
		Job: r.job, Queue: r.Queue, StartedAt: r.startedAt, Processor: r.processor.id,
		Goroutine: r.processor.goroutine.Load(), Overdue: r.overdue(),
	}
}

const (
	// fullPayload is the maximum size of a payload that is shown whole among running jobs, and maxWork the
	// maximum number of payload bytes in one announcement.
	fullPayload = 16 << 10
	maxWork     = 1 << 20
)

// workEntries returns thread ids and entries of the work hash. The payload is JSON within JSON, as Ruby reads
// it; long args are left out, because the hash is written anew every few seconds.
func workEntries(runs []CurrentRun) []string {
	entries := make([]string, 0, 2*len(runs))
	size := 0
	for _, r := range runs {
		payload := r.Job.Raw()
		if len(payload) > fullPayload || size > maxWork {
			payload = r.Job.Patch(job.Edit{Name: "args", JSON: fmt.Sprintf(`["(%d bytes)"]`, len(r.Job.ArgsJSON()))})
		}
		size += len(payload)
		about := map[string]any{"queue": r.Queue, "payload": payload, "run_at": r.StartedAt.Unix()}
		if r.Overdue > 0 {
			about["overdue"] = r.Overdue.Seconds() // for our own readers; Ruby's ignore unknown keys
		}
		entry, err := job.Marshal(about)
		if err != nil {
			continue // the queue name is not valid text: the run continues but is not shown
		}
		entries = append(entries, threadID(r), entry)
	}
	return entries
}

// threadID returns a short name for a processor that looks like Sidekiq's thread ids.
func threadID(r CurrentRun) string { return "p" + strconv.FormatInt(int64(r.Processor), 36) }

// residentKB returns the process' resident memory in kB; 0 if /proc does not have it.
func residentKB() int {
	statm, _ := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(fields[1])
	return pages * os.Getpagesize() / 1024
}
