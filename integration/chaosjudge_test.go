package integration

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/integration/oracle"
	court "github.com/belayq/belay/integration/verdict"
)

// judge looks at what is left, and has the oracle judge each step and the verdict each run.
func (r *chaos) judge() {
	t, took := r.t, history.Now()-r.began
	facts, keys := r.facts()
	r.clock.server.Kill()
	report, err := oracle.Replay(r.redis, oracle.Prefixes(), oracle.OneFleet(), oracle.ClockMoves())
	require.NoError(t, err)
	facts.Taken = report.Taken
	events, err := history.Read(r.dir)
	require.NoError(t, err)
	v := court.Judge(events, facts)

	kills := 0
	for _, e := range events {
		if e.Kind == history.Gone && strings.Contains(e.Text, "killed") {
			kills++
		}
	}
	s := summary{
		Seed: r.plan.Seed, Settings: r.plan.Settings.Name, Shards: len(r.shards), Plan: r.plan.Digest(), Seconds: took.Seconds(), Jobs: r.plan.Kinds(),
		Faults: len(r.plan.Acts), Ends: r.ends.Load(), Kills: kills, Steps: report.Steps,
		Violations: len(report.Violations) + report.More, Lawful: v.Lawful() && len(report.Violations) == 0,
		Breaches: v.Breaches, Lost: v.Missing + report.Lost, Verdict: v.String(),
	}
	s.write(t)
	t.Logf("seed %d, plan %s, %v: %d jobs of %v, %d faults, %d processes ended, %d of them killed", s.Seed, s.Plan,
		took.Round(time.Second), len(r.plan.Jobs), s.Jobs, s.Faults, s.Ends, kills)
	t.Log(report)
	t.Logf("verdict: %v", v)
	r.accuse(report, v)
	require.Positive(t, v.Cancelled, "no job was cancelled")
	require.Positive(t, v.Resumed, "no job went on after a cursor")
	r.readLogs()
	r.requireNothingLeft(keys, events, len(facts.Left) > 0)
	r.requireNoCursor(keys, facts.Left)
	requireNoGrowth(t, r.plan.Settings, events)
	require.Zero(t, s.Lost, "lost")
}

// lasting are the beginnings of the names of keys that may stay for good, or until they expire.
var lasting = []string{
	"queues", "dead", "paused", "stat:", "belay:stat:", "belay:alive", "belay:up", "belay:tombstones", "belay:process:", "belay:ticker", "belay:sweeper",
	"belay:watcher", // with that of the deputy
	"belay:claim:", "belay:drain:", "belay:drain-asked:", "belay:pushes:", "processes",
	"belay:periodic", "belay:cancelled",
	"belay:shard",
	"it-",                                                                           // states of tracked jobs, which expire
	"j|", "h|", "belay:waits|", "belay:queues|", "belay:samples", "belay:completed", // statistics, which expire
}

// requireNothingLeft holds that Redis holds no key but the lasting ones, those of jobs that the verdict has
// judged, and those of processes that died so late that no other could have noticed.
func (r *chaos) requireNothingLeft(keys []string, events []history.Event, jobs bool) {
	allowed := slices.Clone(lasting)
	if jobs {
		allowed = slices.AppendSeq(allowed, maps.Keys(places))
	}
	identities := make(map[string][]string)
	s, end := r.plan.Settings, events[len(events)-1].At
	for _, e := range events {
		switch {
		case e.Kind == history.Up && e.Text != "":
			identities[e.Proc] = append(identities[e.Proc], e.Text[:strings.LastIndexByte(e.Text, ':')+1]) // of each shard
		case e.Kind == history.Gone && e.At+s.Recovery+4*s.Beat > end:
			allowed = append(allowed, identities[e.Proc]...)
		}
	}
	for _, key := range keys {
		if !slices.ContainsFunc(allowed, func(start string) bool { return strings.HasPrefix(key, start) }) {
			r.t.Errorf("left in Redis: %s", key)
		}
	}
}

// requireNoCursor holds that of the states of the plan's jobs only those of dead jobs are left.
func (r *chaos) requireNoCursor(keys []string, left []court.Remnant) {
	for _, j := range r.plan.Jobs {
		state := strings.TrimPrefix(r.site.keys.Iteration(j.JID), r.site.prefix+":")
		dead := slices.ContainsFunc(left, func(l court.Remnant) bool { return l.Place == "dead" && strings.Contains(l.Payload, j.JID) })
		if _, found := slices.BinarySearch(keys, state); found && !dead {
			r.t.Errorf("the state of %s is left in Redis: %s", j.Token, state)
		}
	}
}

// requireNoGrowth holds that no process gathers goroutines or files: of the events that it logs, one a
// second, it compares the first and the last five, without those in its first five seconds and those during
// and after a fault that it was part of.
func requireNoGrowth(t *testing.T, s chaosplan.Settings, events []history.Event) {
	t.Helper()
	const warmth, sample = 5 * time.Second, 5
	type of struct{ fault, proc string }
	up, calm := make(map[string]time.Duration), make(map[string][]history.Event)
	begun, ended := make(map[of]bool), make(map[string]time.Duration) // by process, "" for all
	for _, e := range events {
		switch e.Kind {
		case history.Up:
			up[e.Proc] = e.At
		case history.Begin:
			begun[of{e.Fault, e.Proc}] = true
		case history.End:
			delete(begun, of{e.Fault, e.Proc})
			ended[e.Proc] = e.At
		case history.Health:
			during := slices.ContainsFunc(slices.Collect(maps.Keys(begun)), func(f of) bool { return f.proc == "" || f.proc == e.Proc })
			after := e.At < max(ended[""], ended[e.Proc])+s.TTL
			if !during && !after && up[e.Proc] != 0 && e.At > up[e.Proc]+warmth {
				calm[e.Proc] = append(calm[e.Proc], e)
			}
		}
	}
	for proc, all := range calm {
		if len(all) < 4*sample {
			continue
		}
		early, late := all[:sample], all[len(all)-sample:]
		for _, of := range []struct {
			what  string
			slack int // what one leak for every fault would soon exceed, besides a goroutine for each processor
			count func(history.Event) int
		}{
			{"goroutines", 30 + s.Concurrency, func(e history.Event) int { return e.Goroutines }},
			{"files", 20, func(e history.Event) int { return e.Files }},
		} {
			if before, after := median(early, of.count), median(late, of.count); after > before+of.slack {
				t.Errorf("%s had %d %s, and later %d", proc, before, of.what, after)
			}
		}
	}
}

func median(events []history.Event, count func(history.Event) int) int {
	var counts []int
	for _, e := range events {
		counts = append(counts, count(e))
	}
	slices.Sort(counts)
	return counts[len(counts)/2]
}

// readLogs fails the test when a process ended by a mistake of its own.
func (r *chaos) readLogs() {
	paths, err := filepath.Glob(filepath.Join(r.dir, "*.log"))
	require.NoError(r.t, err)
	require.NotEmpty(r.t, paths)
	for _, path := range paths {
		log, err := os.ReadFile(path)
		require.NoError(r.t, err)
		for _, word := range []string{"DATA RACE", "\npanic: ", "\nfatal error: "} {
			if strings.Contains("\n"+string(log), word) {
				r.t.Errorf("%s: %s\n%.10000s", filepath.Base(path), strings.TrimSpace(word), log)
			}
		}
		printsNoCanary(r.t, path)
	}
}

// maxShown is how many violations are shown in full.
const maxShown = 5

// accuse fails the test over each violation, with the timeline of its job.
func (r *chaos) accuse(report *oracle.Report, v *court.Verdict) {
	t := r.t
	shown := make(map[string]bool)
	for _, violation := range report.Violations[:min(len(report.Violations), maxShown)] {
		t.Errorf("the oracle saw a violation: %v", violation)
		if !shown[violation.JID] {
			shown[violation.JID] = true
			r.tellSteps(report, violation.JID)
		}
	}
	byToken := make(map[string]string)
	for _, j := range r.plan.Jobs {
		byToken[j.Token] = j.JID
	}
	for _, violation := range v.Violations[:min(len(v.Violations), maxShown)] {
		t.Errorf("a violation: %v", violation)
		if shown[violation.Token] || violation.Token == "" {
			continue
		}
		shown[violation.Token] = true
		t.Logf("in the timeline of %s:\n%s", violation.Token, v.Timeline(violation.Token))
		r.tellSteps(report, byToken[violation.Token])
	}
}

func (r *chaos) tellSteps(report *oracle.Report, jid string) {
	timeline, err := report.Timeline(jid)
	require.NoError(r.t, err)
	for _, event := range timeline {
		r.t.Logf("in the timeline of job %s: %v", jid, event)
	}
}

// facts are what lies in Redis at the end and the settings; keys are the names of all keys, and what is
// registered.
func (r *chaos) facts() (f court.Facts, keys []string) {
	s := r.plan.Settings
	f = court.Facts{
		Beat: s.Beat, TTL: s.TTL, Recovery: s.Recovery, Concurrency: s.Concurrency, Save: s.Save,
		MinBackoff: chaosplan.MinBackoff, MinLater: 900 * time.Millisecond, MinSnooze: 700 * time.Millisecond,
	}
	for _, s := range r.shards {
		keys = append(keys, texts(s.do("SMEMBERS", s.keys.Processes()))...)
		for _, key := range texts(s.do("KEYS", s.prefix+":*")) {
			key = strings.TrimPrefix(key, s.prefix+":")
			keys = append(keys, key)
			f.Left = append(f.Left, left(s, key)...)
		}
	}
	slices.Sort(keys)
	return f, keys
}

// places are where jobs lie, by how the names of their keys begin.
var places = map[string]string{
	"queue:": "queue", "belay:working:": "working", "belay:quarantine-run:": "quarantine run", "belay:quarantine:": "quarantine",
	"schedule": "schedule", "retry": "retry", "dead": "dead",
}

// left are the jobs of one key.
func left(s *site, key string) []court.Remnant {
	var left []court.Remnant
	for _, start := range slices.Sorted(maps.Keys(places)) {
		if !strings.HasPrefix(key, start) {
			continue
		}
		read := s.list
		if !strings.HasSuffix(start, ":") {
			read = s.set
		}
		for _, payload := range read(s.prefix + ":" + key) {
			left = append(left, court.Remnant{Place: places[start], Payload: payload})
		}
	}
	return left
}
