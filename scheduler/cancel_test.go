package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

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
