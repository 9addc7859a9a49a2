package dedup_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
)

var now = time.Unix(1700000000, 500e6)

func TestRerun(t *testing.T) {
	t.Parallel()
	const lock = `"belay_unique":{"scheduled":true, ` + soundDigest + `,"until":"until_executed","ttl_ms":1000,"again":true}`
	rerun := func(t *testing.T, raw, queue string, u job.TimeUnit) string {
		t.Helper()
		j, err := job.Parse(raw)
		require.NoError(t, err)
		return dedup.Rerun(j, "k", queue, now, u).Bytes
	}
	t.Run("is_the_job_as_if_nothing_had_befallen_it", func(t *testing.T) {
		t.Parallel()
		raw := `{"retry":3,"queue":"low","tags":["a"],` + lock + `,"args":[1.0,9007199254740993,{"b":[],"a":"\u00e9"}],"class":"C","jid":"j",` +
			`"created_at":1600000000000,"enqueued_at":1600000000001,"x_future":{"jid":"j"}`
		befallen := `,"error_message":"boom","error_class":"E","retried_at":1.5,"failed_at":1.5,"retry_count":2,"error_backtrace":"eJw=","belay_errors":[{"attempt":1}],` +
			`"interrupted_count":2,"interrupted_at":1600000000002,"at":5,"discarded_at":6,"overrated":20,"belay_worker_retries":3}`
		want := `{"retry":3,"queue":"low","tags":["a"],` + lock + `,"args":[1.0,9007199254740993,{"b":[],"a":"\u00e9"}],"class":"C","jid":"k",` +
			`"created_at":1700000000500,"enqueued_at":1700000000500,"x_future":{"jid":"j"}}`
		require.Equal(t, want, rerun(t, raw+"}", "low", job.Millis))
		require.Equal(t, want, rerun(t, raw+befallen, "low", job.Millis))
		require.Equal(t, want, rerun(t, raw+befallen, "", job.Millis))
	})
	t.Run("is_in_no_batch_and_is_followed_by_no_job", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, `{"class":"C","jid":"k","args":[],"created_at":1700000000500,"enqueued_at":1700000000500}`,
			rerun(t, `{"belay_batch":"b/q","class":"C","belay_then":[{"class":"D","jid":"d","args":[]}],"jid":"j","args":[]}`, "", job.Millis))
	})
	t.Run("goes_to_the_queue_it_is_given", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, `{"class":"C","jid":"k","args":[],"queue":"q","created_at":1700000000.5,"enqueued_at":1700000000.5}`,
			rerun(t, `{"class":"C","jid":"j","args":[],"queue":"stale"}`, "q", job.Seconds))
		require.Equal(t, `{"class":"C","jid":"k","args":[],"created_at":1700000000.5,"enqueued_at":1700000000.5,"queue":"q"}`,
			rerun(t, `{"class":"C","jid":"j","args":[]}`, "q", job.Seconds))
	})
	t.Run("has_the_lock_of_the_job_for_itself", func(t *testing.T) {
		t.Parallel()
		j, err := job.Parse(rerun(t, `{"class":"C","jid":"j","args":[],`+lock+`}`, "q", job.Millis))
		require.NoError(t, err)
		got, err := dedup.Read(j)
		require.NoError(t, err)
		require.Equal(t, "k", got.JID)
		require.True(t, got.Rerun, "what is refused while it runs is served once more")
		require.True(t, got.Takes(0))
	})
	t.Run("the_same_question_has_the_same_answer", func(t *testing.T) {
		t.Parallel()
		raw := `{"class":"C","jid":"j","args":[],` + lock + `}`
		once := rerun(t, raw, "q", job.Millis)
		require.Equal(t, once, rerun(t, raw, "q", job.Millis))
		require.Equal(t, once, rerun(t, once, "q", job.Millis))
	})
}

// belay.rb stores the extra run of a job that Ruby deletes.
func TestTheExtraRunInRubyIsThisOne(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../contrib/ruby/belay.rb")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "RUN_FIELDS = %w[")
	require.True(t, found)
	list, _, found := strings.Cut(rest, "]")
	require.True(t, found)
	require.ElementsMatch(t, dedup.RunFields(), strings.Fields(list))
}
