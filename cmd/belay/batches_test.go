package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/lua"
)

// batchShown is what belay batches show --json prints.
func (h *house) batchShown(id string) (b inspect.Batch) {
	h.t.Helper()
	shown := h.invoke("", "batches", "show", id, "--json")
	require.Zero(h.t, shown.code, shown.errs)
	require.NoError(h.t, json.Unmarshal([]byte(shown.out), &b))
	return b
}

func TestBatchesCommand(t *testing.T) {
	t.Parallel()
	t.Run("makes_fills_and_seals_a_batch_twice_with_the_same_result", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.consumer("default")
		for range 2 {
			made := h.invoke("", "batches", "new", "--id", "import-42", "--on-success", "ImportDone", "-q", "default", "--description", "orders of May")
			require.Equal(t, said{out: "import-42\n"}, made)
			require.Equal(t, said{out: "row-1\n"}, h.invoke("", "push", "ImportRow", "1", "--batch", "import-42", "--jid", "row-1"))
			pushed := h.invoke(`{"class":"ImportRow","args":[2],"jid":"row-2"}`+"\n", "push", "--file", "-", "--batch", "import-42")
			require.Zero(t, pushed.code, pushed.errs)
		}
		require.Equal(t, lua.BatchStateOpen, h.batchShown("import-42").State)
		require.Equal(t, said{out: "import-42: sealed\n"}, h.invoke("", "batches", "seal", "import-42"))
		b := h.batchShown("import-42")
		require.Equal(t, [3]any{lua.BatchStateRunning, 2, 2}, [3]any{b.State, b.Total, b.Pending})
		require.Contains(t, h.invoke("", "batches").out, "orders of May")
		require.Contains(t, h.invoke("", "batches", "new", "--id", "import-42").errs, "a batch with this id exists and is sealed; choose another id")
		for _, words := range []string{"batches new --id a/b", "batches new --id=", "batches new -q a\x01b", "batches new --on-success a\x01b", "push Row --batch a/b", "push Row --batch="} {
			require.Equal(t, exitUsage, h.invoke("", strings.Fields(words)...).code, words)
		}
		require.Contains(t, h.invoke("", "batches", "show", "import-42").out, "2 in all, 2 pending, 0 failed, 0 dead, 0 removed\n")
		h.do("SADD", h.key("belay:batch:import-42:failed"), "row-1", "row-2", "3", "4", "5", "6", "7", "8", "9", "10", "11")
		require.Regexp(t, `(?m)^failed .* and 1 more$`, h.invoke("", "batches", "show", "import-42").out)
		h.do("DEL", h.key("belay:batch:import-42:failed"))

		require.Contains(t, h.invoke("", "find", "row-1").out, "ImportRow: in queue default, since ")
		require.Contains(t, h.invoke("", "find", "row-1").out, ", in batch import-42\n")
		require.Contains(t, h.invoke("", "find", "row-1", "--json").out, `"batch":"import-42"`)
		require.Regexp(t, `(?m)^batch +import-42$`, h.invoke("", "queues", "find", "default", "row-1").out)
		require.Zero(t, h.invoke("", "queues", "delete", "default", "row-1", "row-2", "--yes").code)
		var callback struct{ JID string }
		require.NoError(t, json.Unmarshal([]byte(h.payloads("LRANGE", h.key("queue:default"), "0", "-1")[0]), &callback))
		require.Contains(t, h.invoke("", "find", callback.JID).out, ", a callback of batch import-42\n")
		require.Contains(t, h.invoke("", "find", callback.JID, "--json").out, `"callback_of":"import-42"`)
	})
	t.Run("counts_what_operators_do_to_members", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		id := strings.TrimSpace(h.invoke("", "batches", "new", "--on-complete", "Complete", "--on-death", "Death", "-q", "calls").out)
		for _, jid := range []string{"a", "b", "c"} {
			h.invoke("", "push", "Row", "--batch", id, "--jid", jid)
		}
		h.invoke("", "batches", "seal", id)
		require.Zero(t, h.invoke("", "queues", "delete", "default", "a", "--yes").code)
		require.Zero(t, h.invoke("", "queues", "kill", "default", "b", "--yes").code)
		b := h.batchShown(id)
		require.Equal(t, [4]int{2, 1, 1, 1}, [4]int{b.Pending, b.Failed, b.Dead, b.Removed})
		require.Equal(t, []string{"b"}, b.DeadJIDs)
		require.Zero(t, h.invoke("", "dead", "retry", "b").code)
		require.Zero(t, h.batchShown(id).Dead)
		require.Zero(t, h.invoke("", "cancel", "c").code)
		require.Equal(t, [3]int{1, 1, 2}, func() [3]int { b := h.batchShown(id); return [3]int{b.Pending, b.Failed, b.Removed} }())
		require.Equal(t, int64(2), h.do("LLEN", h.key("queue:calls")), "death, and complete")
	})
	t.Run("finds_members_that_are_nowhere_and_removes_them", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		id := strings.TrimSpace(h.invoke("", "batches", "new", "--on-success", "Done", "-q", "calls").out)
		for _, jid := range []string{"a", "b", "c"} {
			h.invoke("", "push", "Row", "--batch", id, "--jid", jid)
		}
		row := h.payloads("LRANGE", h.key("queue:default"), "-1", "-1")[0]
		h.do("LREM", h.key("queue:default"), "1", row) // as a program that knows no batches
		checked := h.invoke("", "batches", "check", id)
		require.Equal(t, said{out: "a\n3 members looked for, 1 is nowhere, 0 removed\n"}, checked)
		require.Contains(t, h.invoke("", "batches", "check", id, "--remove").out, "1 is nowhere, 1 removed")
		require.Contains(t, h.invoke("", "batches", "check", id, "--remove").out, "2 members looked for, 0 are nowhere")
		b := h.batchShown(id)
		require.Equal(t, [3]int{3, 2, 1}, [3]int{b.Total, b.Pending, b.Removed})
	})
	t.Run("invalidates_and_deletes_batches", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		id := strings.TrimSpace(h.invoke("", "batches", "new").out)
		require.Equal(t, said{out: id + ": invalidated\n"}, h.invoke("", "batches", "invalidate", id))
		require.WithinDuration(t, time.Now(), h.batchShown(id).InvalidAt, time.Minute)
		require.Equal(t, said{out: id + ": deleted\n"}, h.invoke("", "batches", "delete", id))
		for _, act := range []string{"show", "seal", "invalidate", "delete"} {
			require.Equal(t, exitAbsent, h.invoke("", "batches", act, id).code, act)
		}
		require.Equal(t, exitFailure, h.invoke("", "push", "Row", "--batch", id).code)
		require.Contains(t, h.invoke("", "push", "Row", "--batch", id).errs, "there is no such batch")
	})
}
