package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
)

func TestBatches(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	require.Contains(t, r.get("/batches").body, "There are no batches.")
	keyspace, err := client.New(r.client, client.Config{Prefix: r.prefix})
	require.NoError(t, err)
	batch, err := keyspace.NewBatch(t.Context(), client.BatchConfig{ID: "import-42", Description: "<orders> of May", Queue: "calls"})
	require.NoError(t, err)
	_, err = keyspace.Push(t.Context(), client.RawJob{Class: "Row", JID: "row-1", Batch: batch})
	require.NoError(t, err)
	r.do("SADD", r.keys.BatchFailed("import-42"), "row-1")

	list := r.get("/batches").body
	for _, text := range []string{"import-42", "&lt;orders&gt;", `href="batch?bid=import-42"`, ">open<"} {
		require.Contains(t, list, text)
	}
	page := r.get("/batch?bid=import-42").body
	for _, text := range []string{"1 in all, 1 pending, 1 failed, 0 dead, 0 removed", "job?jid=row-1", `value="seal"`, `value="invalidate"`, `value="remove"`} {
		require.Contains(t, page, text)
	}
	require.NotContains(t, page, "not over")
	require.NotContains(t, page, "1 of 1")
	_, err = keyspace.NewBatch(t.Context(), client.BatchConfig{Parent: batch, Queue: "calls"})
	require.NoError(t, err)
	for n := range 120 {
		r.do("SADD", r.keys.BatchFailed("import-42"), fmt.Sprint("more-", n))
	}
	for _, text := range []string{"3 in all, 3 pending, 121 failed, 0 dead, 0 removed; 1 nested batch is not over", "Members that have failed: 100 of 121"} {
		require.Contains(t, r.get("/batch?bid=import-42").body, text)
	}
	require.Contains(t, r.get("/job?jid=row-1").body, `<dt>In batch</dt><dd><a href="batch?bid=import-42"><code>import-42</code></a></dd>`)
	for _, id := range []string{"other", "a/b", strings.Repeat("x", 300)} {
		require.Equal(t, http.StatusNotFound, r.get("/batch?bid="+id).status)
	}

	act := func(do string) (page string) { return r.follow(r.post("/batches", "bid", "import-42", "do", do)).body }
	require.Contains(t, act("seal"), "import-42 is sealed.")
	require.NotContains(t, r.get("/batch?bid=import-42").body, `value="seal"`)
	require.Contains(t, act("invalidate"), "import-42 is invalid")
	require.Contains(t, r.get("/batch?bid=import-42").body, ">invalid<")
	r.do("ZADD", r.keys.Dead(), "1", `{"class":"Done","args":[],"jid":"call-1","queue":"calls","belay_batch_ended":"import-42/calls"}`)
	require.Contains(t, r.get("/job?jid=call-1").body, `<dt>Callback of batch</dt><dd><a href="batch?bid=import-42"><code>import-42</code></a></dd>`)
	require.Contains(t, act("remove"), "import-42 is deleted; its jobs stay.")
	for _, do := range []string{"remove", "seal", "invalidate"} {
		require.Contains(t, act(do), "There is no such batch any more.", "on the page of all batches")
	}
	require.Equal(t, http.StatusBadRequest, r.post("/batches", "bid", "import-42", "do", "clear").status)
	require.Contains(t, r.log.String(), `"act":"seal","batch":"import-42"`)
}

func TestAllBatchesCanBePagedAndFound(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	keyspace, err := client.New(r.client, client.Config{Prefix: r.prefix})
	require.NoError(t, err)
	for n := range maxBatches + 25 {
		id := fmt.Sprintf("batch-%03d", n)
		_, err := keyspace.NewBatch(t.Context(), client.BatchConfig{ID: id})
		require.NoError(t, err)
		r.do("ZADD", r.keys.Batches(), fmt.Sprint(4_000_000_000_000+n), id)
	}
	first, second := r.get("/batches").body, r.get("/batches?page=2").body
	require.Contains(t, first, "1–100 of 125")
	require.Contains(t, first, `href="batches?page=2"`)
	require.Contains(t, first, `aria-label="Pages of batches"`)
	require.Contains(t, second, "101–125 of 125")
	require.Contains(t, first, "batch-099")
	require.Contains(t, second, "batch-100")
	require.NotContains(t, first, "batch-100")
	for _, page := range []string{"3", "99999999999999999999", "1e9"} {
		require.Contains(t, r.get("/batches?page="+page).body, " of 125", page)
	}

	require.Equal(t, "batch?bid=batch-100", r.get("/job?jid=batch-100").head.Get("Location"), "the search finds a batch")
	r.do("ZADD", r.keys.Dead(), "1", payload("batch-100", "Report"))
	require.Contains(t, r.get("/job?jid=batch-100").body, "no such host", "a job of that ID is what was asked for")
}
