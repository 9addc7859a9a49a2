package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/integration/oracle"
)

// A day after its success nothing of a batch is in Redis, and one that is open stays.
func TestABatchIsGoneADayAfterItsSuccess(t *testing.T) {
	t.Parallel()
	clock := startClocked(t)
	s := newSite(t, clock.server)
	made := func(id string, words ...string) {
		out, errs, code := s.belay(append([]string{"batches", "new", "--id", id}, words...)...)
		require.Zero(t, code, "%s%s", out, errs)
		out, errs, code = s.belay("push", "Row", "--batch", id)
		require.Zero(t, code, "%s%s", out, errs)
	}
	made("over", "--on-success", "Done")
	made("open")
	_, errs, code := s.belay("batches", "seal", "over")
	require.Zero(t, code, errs)
	words := append([]string{"--exec", "Row=true", "--exec", "Done=true"}, fast...)
	first := s.work(words...)
	eventually(t, "the members and the callback to end", func() bool { return s.text(s.keys.Processed()) == "3" })
	first.signal(syscall.SIGTERM)
	require.Zero(t, first.wait())
	require.NotNil(t, s.do("HGET", s.keys.Batch("over"), "success_at"))
	clock.step(25 * time.Hour) // a worker's estimate of Redis' clock may be late
	s.work(words...)
	// Its first sweep looks for batches, and later ones each minute.
	for deadline := time.Now().Add(5 * time.Minute); len(texts(s.do("KEYS", s.keys.Batch("over")+"*"))) > 0; time.Sleep(20 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "the batch is not deleted")
	}
	require.Equal(t, []string{"open"}, s.set(s.keys.Batches()))
	require.NotNil(t, s.do("HGET", s.keys.Batch("open"), "created"))
}

// Two pushers make batches, some of them nested, and workers run the members, a fifth of which fail at first and
// some of which die; meanwhile workers and pushers are killed and stopped, and Redis is killed and comes back. In
// the end an operator retries the dead members, and removes those that were not kept. Each batch then is over,
// with as many members as it should have; each of its callbacks was stored once, in the step that decided it;
// and its counts were exact in every step, as the oracle holds.
//
// BELAY_BATCHES is for how long: in ten minutes it makes 200 batches of 500 members, and in a short time fewer
// and smaller ones. BELAY_SEED decides who is killed when; a new one is drawn without it.
func TestBatchesInAStorm(t *testing.T) {
	seed, err := chaosSeed()
	require.NoError(t, err)
	span := spanOf(t, "BELAY_BATCHES", "10s")
	count, size := max(int(200*span/(10*time.Minute)), 20), 500
	if span < 2*time.Minute {
		size = 60
	}
	t.Logf("seed %d; again: BELAY_SEED=%d BELAY_BATCHES=%v go test -count=1 -timeout 1h -run '^TestBatchesInAStorm$' -v ./integration", seed, seed, span)
	s := newStorm(t, seed, "batches", fastStorm(6))
	s.shards = overShards(s.site, askedShards(t))
	for n := range 6 {
		s.start(check.RoleWorker, fmt.Sprintf("w%d", n), chaosClients[n%2], "--max-interruptions", fmt.Sprint(manyInterruptions))
	}
	began := history.Now()
	for n := range 2 {
		s.start(check.RoleProducer, fmt.Sprintf("p%d", n), chaosClients[n%2], "--batches", fmt.Sprint(count), "--size", fmt.Sprint(size), "--share", fmt.Sprint(n),
			"--began", began.String(), "--pace", (span / time.Duration(count)).String())
	}
	s.rage(span, s.slots[:6], s.slots[6:])
	b := batchStorm{s, count, size}
	b.await("every batch to be complete", "complete_at")
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "calm"), nil, 0o600))
	for n := range count {
		for _, id := range b.ids(n) {
			_, errs, code := s.site.belay("batches", "check", id, "--remove", "--time", "5m")
			require.Zero(t, code, errs)
		}
	}
	_, errs, code := s.site.belay("dead", "retry", "--all")
	require.Zero(t, code, errs)
	b.await("every batch to be over", "success_at")
	eventually(t, "the callbacks to end", func() bool { return waitingIn(s.shards) == 0 })
	for _, slot := range s.slots {
		slot.end(syscall.SIGTERM)
	}
	b.judge()
}

// A batchStorm is a storm of so many batches, of so many members each.
type batchStorm struct {
	*storm
	count, size int
}

// ids are the ids of the nth batch and of the one in it.
func (b batchStorm) ids(n int) []string {
	if chaosplan.HasNested(n) {
		return []string{chaosplan.BatchID(n, len(b.shards)), chaosplan.NestedID(n, len(b.shards))}
	}
	return []string{chaosplan.BatchID(n, len(b.shards))}
}

// await waits until each batch has a field. However slow the machine is, batches come to their ends one after
// the other: it fails when none has come for a while.
func (b batchStorm) await(what, field string) {
	b.t.Helper()
	for n := range b.count {
		for _, id := range b.ids(n) {
			eventually(b.t, what+": "+id, func() bool { return b.field(id, field) != "" })
		}
	}
}

// field reads a field of a batch; empty for none.
func (b batchStorm) field(id, name string) string {
	for _, s := range b.shards {
		if text, _ := s.do("HGET", s.keys.Batch(id), name).(string); text != "" {
			return text
		}
	}
	return ""
}

// total is how many members the nth batch has, or the one in it: a nested batch counts as two.
func (b batchStorm) total(n, depth int) int {
	switch {
	case depth > 0:
		return b.size / 10
	case chaosplan.HasNested(n):
		return b.size + 2
	}
	return b.size
}

func (b batchStorm) judge() {
	b.t.Helper()
	events, err := history.ReadOf(b.dir, "w*")
	require.NoError(b.t, err)
	called := make(map[string][]string)
	for _, e := range events {
		if e.Kind == history.Called && !slices.Contains(called[e.Token+" "+e.Text], e.JID) {
			called[e.Token+" "+e.Text] = append(called[e.Token+" "+e.Text], e.JID)
		}
	}
	batches, members, deaths := 0, 0, 0
	for n := range b.count {
		for depth, id := range b.ids(n) {
			want := []string{chaosplan.Complete, chaosplan.Success}
			if b.field(id, "death_at") != "" {
				want = append(want, chaosplan.Death)
				deaths++
			}
			for _, what := range want {
				require.Len(b.t, called[id+" "+what], 1, "%s of %s ran as one job", what, id)
				delete(called, id+" "+what)
			}
			total, err := strconv.Atoi(b.field(id, "total"))
			require.NoError(b.t, err, id)
			batches, members = batches+1, members+total
			if want := b.total(n, depth); chaosplan.HasKeys(n, len(b.shards)) {
				require.Equal(b.t, want, total, "%s: each of its members was stored once", id)
			} else {
				require.GreaterOrEqual(b.t, total, want, id)
			}
		}
	}
	require.Empty(b.t, called, "callbacks that no batch has called")
	require.Positive(b.t, deaths)
	judge(b.t, b.server, b.redis, oracle.OneFleet(), oracle.MaxInterruptions(manyInterruptions), oracle.Acts())
	b.t.Logf("batches: %d batches, %d members", batches, members)
}
