package batch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/batch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

const member = `{"retry":true,"queue":"q","belay_batch":"b1/callbacks","args":[1],"class":"Row","jid":"j1","created_at":1}`

func TestEachEndOfARunCountsAsOneThing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		outcome job.Outcome
		as      lua.MemberEnd
	}{
		{job.Done(), lua.MemberDone},
		{job.Discarded(false), lua.MemberDone},
		{job.Expired(false), lua.MemberDone},
		{job.Retried(member, time.Second), lua.MemberFailed},
		{job.Died(member), lua.MemberDied},
		{job.Discarded(true), lua.MemberDied},
		{job.Expired(true), lua.MemberDied},
		{job.Cancelled(), lua.MemberRemoved},
	} {
		want := &lua.Member{Batch: lua.Batch{ID: "b1", Queue: "callbacks"}, JID: "j1", As: c.as}
		require.Equal(t, want, batch.Ending(member, c.outcome), c.outcome.Exit())
		require.Nil(t, batch.Ending(`{"class":"Row","jid":"j1","args":["belay_batch"]}`, c.outcome))
	}
	require.Nil(t, batch.Ending(member, job.Snoozed(member, time.Second)))
	require.Nil(t, batch.Ending(member, job.Requeued()))
}

func TestCallbacksLackTheirEnd(t *testing.T) {
	t.Parallel()
	text, err := batch.Callback(`{"class":"C","jid":"j","args":[],"created_at":1,"enqueued_at":2}`)
	require.NoError(t, err)
	require.Equal(t, `{"class":"C","jid":"j","args":[],"created_at":1`, text)
	_, err = batch.Callback(`{"class":"C","jid":"j","args":["` + strings.Repeat("x", batch.MaxCallback) + `"]}`)
	require.ErrorContains(t, err, "a callback may have")
}
