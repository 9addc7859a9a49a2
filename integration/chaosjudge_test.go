package integration

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/integration/oracle"
	court "github.com/belayq/belay/integration/verdict"
)

// judge looks at what is left, lets the oracle judge each step and the verdict each run, and tells.
func (r *chaos) judge() {
	t, took := r.t, history.Now()-r.began
	facts := r.facts()
	r.clock.server.Kill()
	report, err := oracle.Replay(r.redis, oracle.Prefixes(), oracle.ClockMoves())
	require.NoError(t, err)
	facts.Oracle = counted(report, facts.Left)
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
		Seed: r.plan.Seed, Settings: r.plan.Settings.Name, Plan: r.plan.Digest(), Seconds: took.Seconds(), Jobs: r.plan.Kinds(), Faults: len(r.plan.Acts),
		Ends: r.ends.Load(), Kills: kills, Steps: report.Steps, Violations: len(report.Violations) + report.More,
		Lawful: v.Lawful() && len(report.Violations) == 0, Breaches: named(v.Breaches), Reruns: named(v.Reruns), Lost: v.Missing + report.Lost, Verdict: v.String(),
	}
	s.write(t)
	t.Logf("seed %d, plan %s, %v: %d jobs of %v, %d faults, %d processes ended, %d of them killed", s.Seed, s.Plan, took.Round(time.Second), len(r.plan.Jobs), s.Jobs, s.Faults, s.Ends, kills)
	t.Log(report)
	t.Logf("verdict: %v", v)
	r.accuse(report, v)
	r.readLogs()
	require.Zero(t, s.Lost, "lost")
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
	}
}

// named is a map with plain names for keys.
func named[K ~string](counts map[K]int) map[string]int {
	plain := make(map[string]int)
	for k, n := range counts {
		plain[string(k)] = n
	}
	return plain
}

// mostTold is how many violations are told in full.
const mostTold = 5

// accuse fails the test over each violation, with the life of its job.
func (r *chaos) accuse(report *oracle.Report, v *court.Verdict) {
	t := r.t
	told := make(map[string]bool)
	for _, violation := range report.Violations[:min(len(report.Violations), mostTold)] {
		t.Errorf("the oracle saw a violation: %v", violation)
		if !told[violation.JID] {
			told[violation.JID] = true
			r.tellSteps(report, violation.JID)
		}
	}
	byToken := make(map[string]string)
	for _, j := range r.plan.Jobs {
		byToken[j.Token] = j.JID
	}
	for _, violation := range v.Violations[:min(len(v.Violations), mostTold)] {
		t.Errorf("a violation: %v", violation)
		if told[violation.Token] || violation.Token == "" {
			continue
		}
		told[violation.Token] = true
		t.Logf("in the life of %s:\n%s", violation.Token, v.Timeline(violation.Token))
		r.tellSteps(report, byToken[violation.Token])
	}
}

func (r *chaos) tellSteps(report *oracle.Report, jid string) {
	life, err := report.Timeline(jid)
	require.NoError(r.t, err)
	for _, event := range life {
		r.t.Logf("in the life of job %s: %v", jid, event)
	}
}

// facts is what lies in Redis at the end, and the settings.
func (r *chaos) facts() court.Facts {
	s, keys := r.plan.Settings, r.site.keys
	f := court.Facts{
		Beat: s.Beat, TTL: s.TTL, Recovery: s.Recovery, ShutdownTimeout: s.ShutdownTimeout, Concurrency: s.Concurrency,
		Repeatable: true, // what may not be repeated is not
		MinBackoff: chaosplan.LeastBackoff, MinLater: 900 * time.Millisecond, MinSnooze: 700 * time.Millisecond,
		Registered: texts(r.site.do("SMEMBERS", keys.Processes())),
		Processed:  r.number(keys.Processed()), Failed: r.number(keys.Failed()),
	}
	for _, key := range texts(r.site.do("KEYS", r.site.prefix+":*")) {
		key = strings.TrimPrefix(key, r.site.prefix+":")
		f.Keys = append(f.Keys, key)
		f.Left = append(f.Left, r.left(key)...)
	}
	slices.Sort(f.Keys)
	return f
}

// places are where jobs lie, by how the names of their keys begin.
var places = map[string]string{
	"queue:": "queue", "belay:working:": "working", "belay:alone:": "alone", "belay:suspects:": "suspects",
	"schedule": "schedule", "retry": "retry", "dead": "dead",
}

// left are the jobs of one key.
func (r *chaos) left(key string) []court.Remnant {
	var left []court.Remnant
	for _, start := range slices.Sorted(maps.Keys(places)) {
		if !strings.HasPrefix(key, start) {
			continue
		}
		read := r.site.list
		if !strings.HasSuffix(start, ":") {
			read = r.site.set
		}
		for _, payload := range read(r.site.prefix + ":" + key) {
			left = append(left, court.Remnant{Place: places[start], Payload: payload})
		}
	}
	return left
}

func (r *chaos) number(key string) *int {
	n, _ := strconv.Atoi(r.site.text(key))
	return &n
}

// counted is an oracle's report in numbers. Who died of crashes says so.
func counted(report *oracle.Report, left []court.Remnant) *court.Oracle {
	o := &court.Oracle{Steps: report.Steps, Violations: len(report.Violations) + report.More, Lost: report.Lost}
	for edge, n := range report.Edges {
		switch edge.Move {
		case oracle.Ended:
			o.Ended += n
		case oracle.Retried:
			o.Retried += n
		case oracle.Died:
			o.Failed += n
		case oracle.Buried:
			o.Buried += n
		}
	}
	for _, remnant := range left {
		if remnant.Place == "dead" && strings.Contains(remnant.Payload, `"error_class":"Belay::Interrupted"`) {
			o.Condemned++
		}
	}
	o.Failed -= o.Condemned
	return o
}
