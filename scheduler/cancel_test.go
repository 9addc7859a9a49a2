package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

func TestCancelledJobsAreDroppedWhenTheyComeDue(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("0d", 16)
	eachClient(t, func(r *rig) {
		payload := func(jid, more string) string {
			return fmt.Sprintf(`{"class":"A","jid":%q,"args":[],"queue":"mail","created_at":1700000000.5%s}`, jid, more)
		}
		_, err := r.keys.Mark([]lua.Mark{{JID: "failed"}, {JID: "unique"}}).Do(r.t.Context(), r.client)
		require.NoError(r.t, err)
		_, err = r.marks.Read(r.t.Context(), r.client, r.keys)
		require.NoError(r.t, err)
		unique := payload("unique", fmt.Sprintf(`,"belay_unique":{"digest":%q,"until":"until_executed","ttl_ms":60000}`, digest))
		r.do("SET", r.keys.Lock(digest), " "+lua.OwnerOf("unique", "A"))
		r.due(r.keys.Retry(), payload("failed", `,"retry_count":0`), payload("other", `,"retry_count":0`))
		r.due(r.keys.Schedule(), unique, payload("another", ""))
		r.pass()
		waiting := strings.Join(r.waiting("mail"), "\n")
		require.Len(r.t, r.waiting("mail"), 2)
		require.Contains(r.t, waiting, `"other"`)
		require.Contains(r.t, waiting, `"another"`)
		require.Equal(r.t, int64(0), r.do("EXISTS", r.keys.Retry(), r.keys.Schedule(), r.keys.Lock(digest)))
		require.Contains(r.t, r.log.String(), "cancelled job dropped when it came due")
	})
}

// The batch of a cancelled job may have a broken key. The others are due all the same, and so are those after
// them, however many pages the refused ones fill.
func TestACancelledJobThatRedisRefusesToDropStopsNoOther(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		const broken = lua.MaxItems + 1
		payload := func(jid, more string) string {
			return fmt.Sprintf(`{"class":"A","jid":%q,"args":[],"queue":"mail","created_at":1700000000.5,"retry_count":0%s}`, jid, more)
		}
		marks, jobs := []lua.Mark{{JID: "cancelled"}}, []string{payload("cancelled", ""), payload("before", "")}
		r.do("HSET", r.keys.Batch("b"), "created", "1", "total", fmt.Sprint(broken))
		for n := range broken {
			jid := fmt.Sprint("member", n)
			r.do("SADD", r.keys.BatchPending("b"), jid)
			marks, jobs = append(marks, lua.Mark{JID: jid}), append(jobs, payload(jid, `,"belay_batch":"b/callbacks"`))
		}
		r.do("SET", r.keys.Queue("callbacks"), "no list")
		for chunk := range slices.Chunk(marks, lua.MaxItems) {
			_, err := r.keys.Mark(chunk).Do(r.t.Context(), r.client)
			require.NoError(r.t, err)
		}
		for more := true; more; {
			var err error
			more, err = r.marks.Read(r.t.Context(), r.client, r.keys)
			require.NoError(r.t, err)
		}
		r.due(r.keys.Retry(), append(jobs, payload("after", ""))...)
		r.due(r.keys.Schedule(), payload("scheduled", ""))
		_, err := r.poller.Pass(r.t.Context(), "me")
		require.ErrorContains(r.t, err, "WRONGTYPE")
		waiting := r.waiting("mail")
		require.Len(r.t, waiting, 3)
		for n, jid := range []string{"before", "after", "scheduled"} {
			require.Contains(r.t, waiting[n], jid)
		}
		require.Equal(r.t, int64(broken), r.do("ZCARD", r.keys.Retry()), "the cancelled job without a batch is gone")
		r.do("DEL", r.keys.Queue("callbacks"))
		r.pass()
		require.Zero(r.t, r.do("ZCARD", r.keys.Retry()), "none is passed over for good")
		require.Len(r.t, r.waiting("mail"), 3)
		require.Equal(r.t, fmt.Sprint(broken), r.do("HGET", r.keys.Batch("b"), "removed"))
	})
}

// A caller that waits for a tracked job learns its end, also if a poller drops it; and nothing is left of a job
// that is not tracked.
func TestDroppedJobsEndForThoseThatWait(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		const track = `,"belay_track_ms":3600000`
		payload := func(jid, more string) string {
			return fmt.Sprintf(`{"class":"A","jid":%q,"args":[],"queue":"mail","created_at":1700000000.5,"retry_count":0%s}`, jid, more)
		}
		_, err := r.keys.Mark([]lua.Mark{{JID: "tracked"}, {JID: "plain"}}).Do(r.t.Context(), r.client)
		require.NoError(r.t, err)
		_, err = r.marks.Read(r.t.Context(), r.client, r.keys)
		require.NoError(r.t, err)
		for _, jid := range []string{"tracked", "plain"} {
			r.do("HSET", r.keys.Iteration(jid), lua.FieldCursor, "7", lua.FieldState, "retrying", "belay_created", "1700000000.5")
		}
		ended := r.announced()
		r.due(r.keys.Retry(), payload("tracked", track), payload("plain", ""))
		r.pass()
		select {
		case message := <-ended:
			require.Equal(r.t, []string{"tracked"}, lua.EndedOf(message))
		case <-time.After(10 * time.Second):
			r.t.Fatal("the end was not announced")
		}
		kept, err := r.keys.ReadTrackedJob("tracked").Do(r.t.Context(), r.client)
		require.NoError(r.t, err)
		require.Equal(r.t, lua.TrackCancelled, kept.State)
		require.Equal(r.t, payload("tracked", track), kept.Payload, "find shows it until the end of its retention")
		require.Equal(r.t, int64(0), r.do("EXISTS", r.keys.Iteration("plain")))
	})
}

// announced returns the announcements of ended jobs from now on.
func (r *rig) announced() <-chan string {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	messages, listening, gone := make(chan string, 10), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		_ = r.client.Listen(ctx, []string{r.keys.Ended()}, 0, func() { close(listening) }, func(message string) { messages <- message })
	}()
	r.t.Cleanup(func() { cancel(); <-gone })
	<-listening
	return messages
}
