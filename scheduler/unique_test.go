package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// What a unique job that was scheduled without its lock does when its time has come.
func TestLocksOfDueJobs(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("0d", 16)
	payload := func(jid, more string) string {
		return fmt.Sprintf(`{"class":"A","jid":%q,"args":[],"queue":"mail","belay_unique":{"digest":%q,"until":"until_executing","ttl_ms":60000}%s}`, jid, digest, more)
	}
	holder := func(r *rig) string {
		value, _ := r.do("GET", r.keys.Lock(digest)).(string)
		return value
	}
	eachClient(t, func(r *rig) {
		r.due(r.keys.Schedule(), payload("first", ""), payload("second", ""))
		r.pass()
		require.Len(r.t, r.waiting("mail"), 2, "it is accepted, whichever job has the lock")
		require.Contains(r.t, holder(r), "-first\nA\n")

		// Its start has freed the lock; it was snoozed, and must not stand in the way of others now.
		r.do("DEL", r.keys.Lock(digest))
		r.due(r.keys.Schedule(), payload("snoozed", `,"enqueued_at":1700000000.5`))
		r.pass()
		require.Len(r.t, r.waiting("mail"), 3)
		require.Empty(r.t, holder(r))

		r.due(r.keys.Retry(), payload("failed", `,"retry_count":0`))
		r.pass()
		require.Len(r.t, r.waiting("mail"), 4)
		require.Empty(r.t, holder(r))
	})
}

// A Redis user may be denied the locks that another program's unique jobs take when they come due. These jobs
// stay. They hold up no other job of their queue, wherever it is among them.
func TestADeniedLockStopsOnlyUniqueJobs(t *testing.T) {
	t.Parallel()
	const many = 2*lua.MaxItems + 1
	payload := func(jid, more string) string {
		return fmt.Sprintf(`{"class":"A","jid":%q,"args":[],"queue":"mail"%s}`, jid, more)
	}
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		server := drivertest.Start(t)
		admin := &rig{t: t, client: open(t, server.URL()), keys: lua.NewKeys("p")}
		admin.do("ACL", "SETUSER", "poller", "on", ">secret", "+@all", "&*", "~p:[^b]*", "~p:belay:[^l]*", "~p:belay:l[^o]*") // no lock
		r := &rig{t: t, client: open(t, strings.Replace(server.URL(), "://", "://poller:secret@", 1)), keys: admin.keys}
		r.poller = scheduler.New(scheduler.Config{Round: patience, Client: r.client, Keys: r.keys, Clock: &lua.Clock{}, Largest: job.DefaultPayloadLimit})

		jobs := []string{payload("first", "")}
		for n := range many {
			lock := fmt.Sprintf(`,"belay_unique":{"digest":"%032x","until":"until_executing","ttl_ms":60000}`, n)
			jobs = append(jobs, payload(fmt.Sprint("unique", n), lock))
			if n == 0 || n == many/2 {
				jobs = append(jobs, payload(fmt.Sprint("after", n), ""))
			}
		}
		r.due(r.keys.Schedule(), append(jobs, payload("last", ""))...)
		var err error
		drivertest.Eventually(t, func() bool {
			_, err = r.poller.Pass(t.Context(), "me")
			return len(r.waiting("mail")) == 4
		}, patience, time.Millisecond)
		require.ErrorContains(t, err, "NOPERM")
		waiting := r.waiting("mail")
		for n, jid := range []string{"first", "after0", fmt.Sprint("after", many/2), "last"} {
			require.Contains(t, waiting[n], jid, "in their order")
		}
		require.Equal(t, int64(many), r.do("ZCARD", r.keys.Schedule()), "none is lost")

		admin.do("ACL", "SETUSER", "poller", "allkeys")
		drivertest.Eventually(t, func() bool {
			_, err = r.poller.Pass(t.Context(), "me")
			return err == nil && len(r.waiting("mail")) == many+4
		}, patience, time.Millisecond)
		require.Zero(t, r.do("ZCARD", r.keys.Schedule()))
	})
}
