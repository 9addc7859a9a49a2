package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
