package integration

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// An account is what a job of a class comes to, however often its process died.
type account struct {
	runs, failed int // that are counted, each once
	dies         bool
	cancelled    bool // it is not run again
	called       bool // it is stored by the step that decides it, which may be to come
}

var accounts = map[string]account{
	"Done": {runs: 1}, "Slow": {runs: 1}, "Holds": {runs: 1}, "Stays": {runs: 1}, "Snoozes": {runs: 1},
	"Fails": {runs: 2, failed: 1}, "HoldsFails": {runs: 2, failed: 1}, "ImportsFails": {runs: 2, failed: 1},
	"Called": {runs: 1, called: true}, "CalledFails": {runs: 2, failed: 1, called: true},
	"GatedDone": {runs: 1}, "GatedHolds": {runs: 1}, "GatedStays": {runs: 1}, "GatedFails": {runs: 2, failed: 1}, "PacedDone": {runs: 1},
	"Dies": {runs: 1, failed: 1, dies: true}, "Cancelled": {runs: 1, cancelled: true},
}

// A lying is one job that lies somewhere.
type lying struct {
	key string
	*job.Job
}

// whereabouts are all jobs that lie on the stage, by jid; each lies in one place.
func (s *stage) whereabouts() map[string]lying {
	s.t.Helper()
	found := make(map[string]lying)
	for _, key := range texts(s.do("KEYS", s.prefix+":*")) {
		name := strings.TrimPrefix(key, s.prefix+":")
		var entries []string
		switch {
		case strings.HasPrefix(name, "queue:"), strings.HasPrefix(name, "belay:working:"), strings.HasPrefix(name, "belay:quarantine-run:"),
			strings.HasPrefix(name, "belay:quarantine:"):
			entries = s.list(key)
		case name == "schedule", name == "retry", name == "dead":
			entries = s.set(key)
		case strings.HasPrefix(name, "belay:waiting:"):
			for _, waiter := range s.list(key) {
				entries = append(entries, lua.ParseWaiter(waiter).Bytes)
			}
		}
		for _, entry := range entries {
			read, err := job.Parse(entry)
			require.NoError(s.t, err)
			require.NotContains(s.t, found, read.JID(), "it lies in two places")
			found[read.JID()] = lying{name, read}
		}
	}
	return found
}

// An outcome is what must come of a stage after its owner's end.
type outcome struct {
	processed, failed, dead int
	again                   map[string]int // runs to come, by jid
}

// foresee says what must come of what is there now: what has ended does not run again, all else does, but for a
// quarantined job that its owner died of, if that was once too often.
func (s *stage) foresee() outcome {
	s.t.Helper()
	found := s.whereabouts()
	expect := outcome{processed: s.ticks, again: make(map[string]int)}
	for jid, class := range s.jobs {
		its := accounts[class]
		lies, waits := found[jid]
		switch {
		case waits && strings.HasPrefix(lies.key, "belay:quarantine-run:") && lies.InterruptedCount()+1 >= retry.DefaultMaxInterruptions:
			// Its death counts as a failed run, as every death does.
			expect.processed, expect.failed, expect.dead = expect.processed+lies.failures()+1, expect.failed+lies.failures()+1, expect.dead+1
			continue
		case !waits && its.called && len(s.book.ends(jid)) == 0:
			expect.again[jid] = its.runs
		case !waits:
			require.False(s.t, its.dies, "job %s is gone", jid)
			require.True(s.t, its.cancelled || len(s.book.ends(jid)) > 0, "job %s is gone, and never ended", jid)
		case lies.key == "dead":
			require.True(s.t, its.dies, "job %s is dead: %s", jid, lies.Raw())
		case its.cancelled: // it is dropped, and counted
		case its.dies:
			expect.again[jid] = 1
		default:
			expect.again[jid] = its.runs - lies.failures() + s.snoozes(class, jid)
		}
		expect.processed, expect.failed = expect.processed+its.runs, expect.failed+its.failed
		if its.dies {
			expect.dead++
		}
	}
	return expect
}

// failures is how often the job has failed and been counted.
func (l lying) failures() int {
	if n, failed := l.RetryCount(); failed {
		return n + 1
	}
	return 0
}

// snoozes is how often a job is still to be put off.
func (s *stage) snoozes(class, jid string) int {
	if _, err := os.Stat(s.book.path + "." + jid); class == "Snoozes" && os.IsNotExist(err) {
		return 1
	}
	return 0
}

// finish has a healthy worker do what there is to do, and holds that all came out as it must.
func (s *stage) finish() {
	s.t.Helper()
	// What the owner said last has been read by the server once it answers a connection that was made later.
	eventually(s.t, "the owner's connections to close", func() bool { return s.proxy.Open() == 0 })
	if !s.death.wasMet() {
		require.Zero(s.t, s.owner.wait(), s.owner.log())
	}
	expect := s.foresee()
	healthy := s.act(s.site, "work")
	eventually(s.t, "every job to end", func() bool {
		processed := number(s.text(s.keys.Processed()))
		require.LessOrEqual(s.t, processed, expect.processed, "more runs were counted than there were")
		return processed == expect.processed && len(s.set(s.keys.Dead())) == expect.dead
	})
	eventually(s.t, "only the healthy worker to live", func() bool {
		identities := healthy.identities()
		return len(identities) == 1 && slices.Equal(identities, s.set(s.keys.Alive()))
	})
	eventually(s.t, "no slot, admission or waiter to be left", func() bool {
		return s.do("EXISTS", s.keys.Gates(), s.keys.Admitted(), s.keys.Waiting(), s.keys.Leases()) == int64(0)
	})
	require.NoError(s.t, syscall.Kill(healthy.pid, syscall.SIGTERM))
	require.Zero(s.t, healthy.wait(), healthy.log())

	require.Equal(s.t, expect.processed, number(s.text(s.keys.Processed())))
	require.Equal(s.t, expect.failed, number(s.text(s.keys.Failed())))
	require.Len(s.t, s.set(s.keys.Dead()), expect.dead)
	for jid := range s.jobs {
		again := slices.DeleteFunc(s.book.starts(jid), func(m mark) bool { return m.Worker != healthy.pid })
		require.Len(s.t, again, expect.again[jid], "runs of %s by the healthy worker", jid)
		require.Zero(s.t, s.do("HEXISTS", s.keys.Iteration(jid), "c"), "a cursor ends with its job")
	}
	require.Empty(s.t, s.book.of("forgotten", ""), "a failed run's cursor is lost")
	require.Len(s.t, s.list(s.keys.PeriodicRuns(yearly)), int(s.do("EXISTS", s.keys.PeriodicDefinitions()).(int64)), "the tick is fired once") //nolint:forcetypeassert // Redis answers a number
	s.nothingIsLeft()
}

// nothingIsLeft holds that only what is meant to stay has stayed: counters, the dead, names, and tombstones
// with the records of those that lie under them. What expires by itself may.
func (s *stage) nothingIsLeft() {
	s.t.Helper()
	stays := []string{s.keys.Queues(), s.keys.Processed(), s.keys.Failed(), s.keys.Dead(), s.keys.Up(), s.keys.Tombstones(),
		s.keys.Periodic(), s.keys.PeriodicDefinitions(), s.keys.PeriodicLast(), s.keys.PeriodicSeen(), s.keys.PeriodicUptime(), s.keys.PeriodicRuns(yearly),
		s.keys.Batches(), s.keys.Batch(s.jid("batch")), s.keys.Limits(), s.keys.Classes()}
	for _, identity := range s.set(s.keys.Tombstones()) {
		stays = append(stays, s.keys.Record(identity))
	}
	for _, key := range texts(s.do("KEYS", s.prefix+":*")) {
		if !slices.Contains(stays, key) {
			require.NotEqual(s.t, int64(-1), s.do("PTTL", key), "%s is left, for ever", key)
		}
	}
}

// number is a counter's value.
func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}
