package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/integration/oracle"
)

// Jobs of many keys come in bursts, and at most three of a key run at once, by the history of the handlers and
// by the oracle, while workers are killed and replaced, and Redis is killed and comes back. The oracle also
// judges that waiters go in the order in which they came, and that none waits at a gate that has room. In the
// end every job has ended, and no slot is left.
//
// BELAY_LIMITS is for how long: from two minutes on there are 1,000 keys and 100,000 jobs, and one worker is of a
// version before limits, which recovers the jobs of others without their slots. BELAY_SEED decides who is killed
// when; a new one is drawn without it.
func TestLimitsInAStorm(t *testing.T) {
	const most = 3
	seed, err := chaosSeed()
	require.NoError(t, err)
	span := spanOf(t, "BELAY_LIMITS", "6s")
	whole := span >= 2*time.Minute
	load := limitedLoad{keys: 20, jobs: 10, bursts: 10}
	if whole {
		load.keys = 1000
	}
	t.Logf("seed %d; again: BELAY_SEED=%d BELAY_LIMITS=%v go test -count=1 -timeout 1h -run '^TestLimitsInAStorm$' -v ./integration", seed, seed, span)
	settings := fastStorm(12)
	// A process that is declared dead and goes on runs its jobs beside those who got them: a busy machine must
	// not make one.
	settings.Beat, settings.TTL = 500*time.Millisecond, 8*time.Second
	s := newStorm(t, seed, "limits", settings)
	if whole {
		s.program = beforeLimits(t)
		s.start(check.RoleWorker, "old", chaosClients[0], "--max-interruptions", fmt.Sprint(manyInterruptions))
	}
	s.program, err = chaosWorker()
	require.NoError(t, err)
	old := len(s.slots)
	for n := range 6 {
		s.start(check.RoleWorker, fmt.Sprintf("w%d", n), chaosClients[n%2], "--limit", fmt.Sprint(most), "--max-interruptions", fmt.Sprint(manyInterruptions))
	}
	pushed, pusher := make(chan error, 1), s.site.clientOf(check.RoleProducer)
	go func() { pushed <- load.push(t.Context(), pusher, span) }()
	s.rage(span, s.slots[old:], nil)
	require.NoError(t, <-pushed)
	last, lastAt := "", time.Now()
	for {
		processed := s.site.text(s.site.keys.Processed())
		if processed == fmt.Sprint(load.total()) {
			break
		}
		if processed != last {
			last, lastAt = processed, time.Now()
		}
		require.Less(t, time.Since(lastAt), patience, "%s of %d jobs have ended, and no more end", processed, load.total())
		time.Sleep(50 * time.Millisecond)
	}
	eventually(t, "no slot to be left", func() bool {
		return s.site.do("EXISTS", s.site.keys.Gates(), s.site.keys.Waiting(), s.site.keys.Leases()) == int64(0) &&
			len(texts(s.site.do("KEYS", s.site.keys.Slots("*")))) == 0
	})
	for _, slot := range s.slots {
		slot.end(syscall.SIGTERM)
	}
	require.Empty(t, s.site.text(s.site.keys.Failed()))
	events, err := history.Read(s.dir)
	require.NoError(t, err)
	load.judge(t, withDeaths(s.site, events), most)
	var options []oracle.Option
	if whole {
		options = append(options, oracle.OldJanitors())
	}
	report := judge(t, s.server, s.redis, append(options, oracle.MaxInterruptions(manyInterruptions))...)
	waited := 0
	for edge, count := range report.Edges {
		if edge.Move == oracle.Admitted {
			waited += count
		}
	}
	require.Positive(t, waited, "no job ever waited")
	t.Logf("limits: %d jobs of %d keys; %d times one had waited", load.total(), load.keys, waited)
}

// beforeLimits builds the program of a version whose scripts know no slots.
func beforeLimits(t *testing.T) (path string) {
	t.Helper()
	const file, line = "../lua/shared/slot.lua", "ledger = redis.call('EXISTS', slots, admitted) > 0"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), line), "%s has moved on: say here how a script knows nothing of slots", file)
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "slot.lua"), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(text), line, "ledger = false", 1)), 0o600))
	original, err := filepath.Abs(file)
	require.NoError(t, err)
	listed, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, listed, 0o600))
	path = filepath.Join(dir, "chaosworker")
	require.NoError(t, goBuild(path, "./chaosworker", "-overlay", overlay))
	return path
}

// declaredDead is when a process was declared dead, by its tombstone.
const declaredDead history.Kind = "declared dead"

// withDeaths adds to a history when its processes were declared dead.
func withDeaths(s *site, events []history.Event) []history.Event {
	s.t.Helper()
	zero := time.Now().Add(-history.Now())
	procs := make(map[string]string) // by identity
	for _, e := range events {
		if e.Kind == history.Up {
			procs[e.Text] = e.Proc
		}
	}
	tombstones := texts(s.do("ZRANGE", s.keys.Tombstones(), "0", "-1", "WITHSCORES"))
	for n := 0; n+1 < len(tombstones); n += 2 {
		ms, err := strconv.ParseFloat(tombstones[n+1], 64)
		require.NoError(s.t, err)
		events = append(events, history.Event{Kind: declaredDead, Proc: procs[tombstones[n]], At: time.UnixMilli(int64(ms)).Sub(zero)})
	}
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	return events
}

// limitedLoad is so many bursts of so many jobs of each key.
type limitedLoad struct{ keys, jobs, bursts int }

func (l limitedLoad) total() int { return l.keys * l.jobs * l.bursts }

// push pushes the bursts within a span. Jobs have keys of their own, so that a push is repeated until it is
// acknowledged.
func (l limitedLoad) push(ctx context.Context, pusher *client.Client, span time.Duration) error {
	began := time.Now()
	for burst := range l.bursts {
		time.Sleep(time.Until(began.Add(span * time.Duration(burst) / time.Duration(l.bursts))))
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			_, err := pusher.PushMany(ctx, l.burst(burst))
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("push burst %d: %w", burst, err)
			}
		}
	}
	return nil
}

func (l limitedLoad) burst(burst int) iter.Seq[client.RawJob] {
	return func(yield func(client.RawJob) bool) {
		for n := range l.keys * l.jobs {
			token := fmt.Sprintf("%d-%d", burst, n)
			spec := history.Spec{Kind: fmt.Sprintf("key-%d", n/l.jobs), Millis: 1 + n%20, Retries: -1}
			job := client.RawJob{
				Class: chaosplan.Limited, Queue: chaosplan.LimitedQueue, JID: "limited-" + token, Args: []any{token, spec},
				Key: token, KeyFor: time.Hour,
			}
			if !yield(job) {
				return
			}
		}
	}
}

// judge holds that no key had more runs at once than it may, in which the runs of a process that was declared
// dead and went on do not count; and that each job was done.
func (l limitedLoad) judge(t *testing.T, events []history.Event, most int) {
	t.Helper()
	signalled := make(map[string]bool)
	excluded := make(map[string]bool) // they were declared dead, and lived
	for _, e := range events {
		switch {
		case e.Kind == history.Signalled:
			signalled[e.Proc] = true
		case e.Kind == declaredDead && !signalled[e.Proc]:
			excluded[e.Proc] = true
		}
	}
	killed, done := make(map[string]bool), make(map[string]bool)
	open := make(map[string]map[string]string) // processes by key and run
	keyOf := make(map[string]string)           // by run
	atOnce := 0
	for _, e := range events {
		switch {
		case e.Kind == history.Signalled && e.Fault == "KILL":
			killed[e.Proc] = true
			for _, runs := range open {
				for run, proc := range runs {
					if proc == e.Proc {
						delete(runs, run)
					}
				}
			}
		case e.Kind == history.Start && !killed[e.Proc] && !excluded[e.Proc]:
			key := e.Spec.Kind
			if open[key] == nil {
				open[key] = make(map[string]string)
			}
			open[key][e.Run], keyOf[e.Run] = e.Proc, key
			atOnce = max(atOnce, len(open[key]))
			require.LessOrEqual(t, len(open[key]), most, "%s: runs at once, with %s of %s", key, e.JID, e.Proc)
		case e.Kind == history.Finish:
			delete(open[keyOf[e.Run]], e.Run)
			if e.Outcome == history.OK {
				done[e.JID] = true
			}
		}
	}
	require.Len(t, done, l.total())
	require.Equal(t, most, atOnce, "no key ever had as many runs as it may: the storm proves less than it should")
	t.Logf("limits: %d processes killed, %d declared dead that lived", len(killed), len(excluded))
}
