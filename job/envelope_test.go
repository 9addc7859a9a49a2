package job

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheQueueOfALargePayloadIsFoundInItsEnds(t *testing.T) {
	t.Parallel()
	x := strings.Repeat("x", 5000)
	for payload, want := range map[string]string{
		`{"retry":true,"queue":"a","class":"A","args":["` + x + `"],"jid":"1"}`:                        "a",
		`{"class":"A","args":["` + x + `"],"jid":"1", "queue" : "a" ,"created_at":1.5}`:                "a",
		`{"args":["` + x + `",{"b":1,"queue":"no"}],"queue":"a"}`:                                      "a",
		`{"args":["` + x + `",{"b":[{"c":1,"queue":"no"}]}],"class":"A"}`:                              "",
		`{"queue":"a","args":["` + x + `"],"jid":"1","queue":"b"}`:                                     "b",
		`{"queue":"a","args":["` + x + `",",\"queue\":\"no\"}"],"jid":"1"}`:                            "a",
		`{"args":["` + x + `"],"queue":"a` + "\n" + `"}`:                                               "",
		`{"args":["` + x + `"],"queue":7}`:                                                             "",
		`{"args":["` + x + `"],"queue":"cut`:                                                           "",
		`{"args":["` + x + `"],"x":"` + x + `"}`:                                                       "",
		`["` + x + `",{"b":1,"queue":"no"}]`:                                                           "",
		`{"meta":{"queue":"no","b":1},"args":["` + x + `"],"error_message":"e","queue":"a"}`:           "a",
		`{"meta":{"b":1,"queue":"no"},"class":"A","args":["` + x + `"],"jid":"queue","class":"queue"}`: "",
	} {
		queue, ok := QueueInEnds(payload[:1024], payload[len(payload)-1024:])
		require.Equal(t, want, queue, "%.60s…%s", payload, payload[len(payload)-60:])
		require.Equal(t, want != "", ok)
	}
}

func TestAJobThatIsOnlyMovedNeedsNoMoreThanSidekiqsClientDoes(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"class":"A","args":[]}`:                           "",
		`{"class":"A","args":[],"jid":7,"retry_count":"1"}`: "",
		`{"class":"A","args":[],"queue":null}`:              "",
		`{"class":7,"args":[]}`:                             "class is not a name",
		`{"class":"A"}`:                                     "args is missing",
		`{"class":"A","args":[`:                             "cut off",
		`{"class":"A","args":[],"queue":"` + strings.Repeat("q", 999) + `"}`: "at most",
	} {
		j, err := ParseToMove(raw)
		if want != "" {
			require.ErrorContains(t, err, want, raw)
			continue
		}
		require.NoError(t, err, raw)
		require.Empty(t, j.JID())
		require.Equal(t, DefaultQueue, j.QueueOrDefault())
	}
}

func TestALockOfARubyGemIsSeenInThePayload(t *testing.T) {
	t.Parallel()
	for member, want := range map[string]string{
		``: "", `"lock":"until_executed","lock_digest":"uniquejobs:a1",`: "sidekiq-unique-jobs", `"unique_digest":"uniquejobs:a1",`: "sidekiq-unique-jobs",
		`"unique_for":600,`: "Sidekiq Enterprise", `"unique_for":false,`: "", `"idempotency_key":"resque:gitlab:duplicate:a1",`: "GitLab",
		`"lock_digest":null,`: "", `"belay_unique":{"digest":"a1"},`: "",
	} {
		j, err := Parse(`{` + member + `"class":"A","jid":"1","args":["lock_digest"]}`)
		require.NoError(t, err)
		require.Equal(t, want, j.ForeignLock(), member)
	}
}

func TestForeignBatch(t *testing.T) {
	t.Parallel()
	for member, want := range map[string]string{
		"": "", `"bid":"0a-Z_1",`: "0a-Z_1", `"bid":null,`: "", `"bid":7,`: "", `"bids":"x",`: "", `"belay_batch":"b/q",`: "",
	} {
		j, err := Parse(`{` + member + `"class":"A","jid":"1","args":["bid",{"bid":"x"}]}`)
		require.NoError(t, err)
		require.Equal(t, want, j.ForeignBatch(), member)
	}
}
