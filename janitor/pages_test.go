package janitor

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

// A server that closes connections with more than a few jobs to send gets smaller pages.
func TestJobsComeBackThroughASmallOutputBuffer(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"256kb", "2mb"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			server := drivertest.Start(t, "--client-output-buffer-limit", "normal", limit, limit, "0")
			eachClient(t, func(t *testing.T, open opener) {
				r := newRigOn(t, open, server.Addr(), drivertest.Prefix(t), "mail")
				victim := r.victim
				for range 25 {
					r.do("LPUSH", r.keys.Working("mail", victim),
						job.Draft{Class: "T", Queue: "mail", ArgsJSON: `["` + strings.Repeat("x", 200_000) + `"]`}.Encode())
				}
				r.lapse(victim)
				j, session := r.newJanitor()
				r.recover(j, session, func() bool { return r.do("LLEN", r.keys.Queue("mail")) == int64(25) })
				require.True(t, r.isTombstoned(victim))
			})
		})
	}
}

// trips counts the round trips of a client.
type trips struct {
	driver.Client
	count atomic.Int64
}

func (c *trips) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	c.count.Add(1)
	return c.Client.Do(ctx, calls...)
}

// corpses is how many it sees lapsed: not those whose TTL is longer than its own, whom a beat names as well.
func (j *Janitor) corpses() int {
	count := 0
	for identity := range j.lapsed {
		if strings.HasPrefix(identity, "corpse:") {
			count++
		}
	}
	return count
}

// A rack that loses power leaves many dead processes with a few jobs each. What they cost is Redis' work, not
// beats.
func TestManyDeadProcessesAreSeenAndRecoveredTogether(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		const dead = 700
		r := newRig(t, open, "mail")
		for range dead {
			corpse := r.register("corpse", r.record)
			r.do("LPUSH", r.keys.Working("mail", corpse), payload("mail"))
			r.lapse(corpse)
		}
		j, session := r.newJanitor()
		client := &trips{Client: r.client}
		j.link = link.Link{Client: client, Round: patience}
		look := func() {
			r.stay()
			r.watch(j, session)
			require.NoError(t, j.Pass(t.Context(), session.Identity))
		}
		look()
		require.Equal(t, dead, j.corpses(), "one look sees all")
		require.Zero(t, r.do("LLEN", r.keys.Queue("mail")))
		// As if that look had been long ago.
		for _, s := range j.lapsed {
			s.first -= time.Hour
		}
		before := client.count.Load()
		look()
		require.Equal(t, int64(dead), r.do("LLEN", r.keys.Queue("mail")), "one pass brings all back")
		require.Zero(t, j.corpses())
		require.Less(t, client.count.Load()-before, int64(dead/5), "many in one round trip")
		require.Equal(t, dead, strings.Count(r.log.String(), "recovered the jobs of a dead process"))
	})
}

// Sight of many processes follows the rule for sight of one: a process that beat in between, or was seen by a
// process that lost sight itself, is looked at anew.
func TestSightOfManyBreaksLikeSightOfOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], "mail")
	var victims []string
	for range 300 {
		corpse := r.register("corpse", r.record)
		victims = append(victims, corpse)
		r.lapse(corpse)
	}
	j, session := r.newJanitor()
	session.ttl = rigTTL // one with a longer TTL than ours would be named as well
	look := func() {
		r.stay()
		r.watch(j, session)
		_, err := j.readRecords(t.Context(), map[string]bool{})
		require.NoError(t, err)
	}
	look()
	require.Equal(t, len(victims), j.corpses())
	alive := victims[17]
	r.do("ZADD", r.keys.Alive(), "XX", fmt.Sprint(time.Now().Add(3*time.Second).UnixMilli()), alive)
	look()
	require.NotContains(t, j.lapsed, alive, "it beat in between")
	r.lapse(alive)
	first := j.lapsed[victims[0]].first
	look()
	require.Equal(t, first, j.lapsed[victims[0]].first)
	require.Greater(t, j.lapsed[alive].first, first, "it is looked at anew")

	r.watch(j, session)
	j.Blind()
	require.Empty(t, j.lapsed)
	_, err := j.readRecords(t.Context(), map[string]bool{})
	require.NoError(t, err)
	require.Empty(t, j.lapsed, "blind, it sees none")
}

// The index of locks is cleared page by page while there is more, and not before the next minute once there
// is not.
func TestManyLocksThatRanOutLeaveTheirIndexAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], "mail")
	j, session := r.newJanitor()
	const locks = 40_000
	for first := 0; first < locks; first += 1000 {
		words := []string{"ZADD", r.keys.Unique()}
		for n := range 1000 {
			words = append(words, "1", fmt.Sprint(first+n))
		}
		r.do(words...)
	}
	sweeps := 0
	for next := unlistRest; next == unlistRest; sweeps++ {
		next = swept(t, j, session.Identity)
	}
	require.Zero(t, r.do("ZCARD", r.keys.Unique()))
	require.GreaterOrEqual(t, sweeps, locks/(unlistPages*lua.MaxItems), "others are served in between")
}
