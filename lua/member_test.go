package lua

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

const memberJob = `{"retry":true,"queue":"q","belay_batch":"b1/callbacks","args":[1],"class":"Row","jid":"j1","created_at":1}`

func TestTheEndsOfAPayloadShowItsBatch(t *testing.T) {
	t.Parallel()
	large := strings.Replace(memberJob, "[1]", `["`+strings.Repeat("x", 4000)+`"]`, 1)
	want := &Member{Batch: Batch{ID: "b1", Queue: "callbacks"}, JID: "j1", As: MemberDied}
	require.Equal(t, want, MemberUnread(large[:1024], large[len(large)-1024:], MemberDied))
	inArgs := `{"retry":true,"args":["` + strings.Repeat("x", 2000) + `",{"belay_batch":"b1/q"}],"class":"Row","jid":"j1"}`
	require.Nil(t, MemberUnread(inArgs, inArgs, MemberDied), "the text of an argument is no field")
	inNext := `{"retry":true,"belay_then":[{"belay_batch":"b1/q","args":[],"class":"B","jid":"j2"}],"args":[],"class":"Row","jid":"j1"}`
	require.Nil(t, MemberUnread(inNext, inNext, MemberDied), "the field of a next job is none of the job")
	require.Nil(t, MemberUnread(`{"belay_batch":"b1/q","args":[`, `]`, MemberDied), "nothing says its jid")
}

func TestIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"5f1e", "import-42", "a.5f1e", strings.Repeat("x", 64)} {
		require.NoError(t, CheckBatchID(id))
	}
	for _, id := range []string{"", "a/b", "a:b", "a b", "é", strings.Repeat("x", 65)} {
		require.Error(t, CheckBatchID(id), id)
		parsed, err := job.Parse(`{"class":"C","jid":"j","args":[],"belay_batch":"` + strings.ReplaceAll(id, "/", ":") + `/q"}`)
		require.NoError(t, err)
		require.Nil(t, MemberOf(parsed, MemberDone), id)
	}
}
