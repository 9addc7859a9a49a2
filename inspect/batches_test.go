package inspect

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

func TestBatches(t *testing.T) {
	maker := func(w *world) *client.Client {
		c, err := client.New(w.driver, client.Config{Prefix: w.prefix})
		require.NoError(w, err)
		return c
	}
	make := func(w *world, c *client.Client, cfg client.BatchConfig, jids ...string) *client.Batch {
		b, err := c.NewBatch(w.Context(), cfg)
		require.NoError(w, err)
		for _, jid := range jids {
			_, err := c.Push(w.Context(), client.RawJob{Class: "Row", JID: jid, Batch: b})
			require.NoError(w, err)
		}
		return b
	}
	promises(t, map[string]func(w *world){
		"are_listed_by_their_expiry": func(w *world) {
			c := maker(w)
			make(w, c, client.BatchConfig{ID: "later", Description: "a"}, "r1", "r2")
			make(w, c, client.BatchConfig{ID: "earlier"})
			w.do("ZADD", w.keys.Batches(), "1", "earlier")
			var ids []string
			for b, err := range w.inspector.Batches(w.Context()) {
				require.NoError(w, err)
				ids = append(ids, b.ID)
			}
			require.Equal(w, []string{"earlier", "later"}, ids)
			for skip, id := range ids {
				page, total, err := w.inspector.BatchesFrom(w.Context(), skip, 1)
				require.NoError(w, err)
				require.Equal(w, 2, total)
				require.Len(w, page, 1)
				require.Equal(w, id, page[0].ID)
			}
			count, err := w.inspector.BatchCount(w.Context())
			require.NoError(w, err)
			require.Equal(w, int64(2), count)
			require.Equal(w, int64(2), w.status().Batches)
			b, found, err := w.inspector.Batch(w.Context(), "later")
			require.NoError(w, err)
			require.True(w, found)
			require.Equal(w, [3]any{2, "a", lua.BatchStateOpen}, [3]any{b.Pending, b.Description, b.State})
		},
		"are_counted_by_their_states": func(w *world) {
			c := maker(w)
			make(w, c, client.BatchConfig{ID: "filled"}, "r1")
			sealed := make(w, c, client.BatchConfig{ID: "sealed"}, "r2")
			empty := make(w, c, client.BatchConfig{ID: "empty"})
			require.NoError(w, sealed.Seal(w.Context()))
			require.NoError(w, empty.Seal(w.Context()))
			states, others, err := w.inspector.BatchStates(w.Context())
			require.NoError(w, err)
			require.Equal(w, map[lua.BatchState]int{lua.BatchStateOpen: 1, lua.BatchStateRunning: 1, lua.BatchStateOver: 1}, states)
			require.Zero(w, others)
			for n := range lua.MaxItems {
				w.do("ZADD", w.keys.Batches(), "1", fmt.Sprint("older", n))
			}
			states, others, err = w.inspector.BatchStates(w.Context())
			require.NoError(w, err)
			require.Equal(w, 3, others, "it reads a bounded number, those that are kept the longest first")
			require.Equal(w, 1, states[lua.BatchStateRunning])
			w.do("SET", w.keys.Batches(), "no set")
			_, _, err = w.inspector.BatchStates(w.Context())
			require.ErrorContains(w, err, "WRONGTYPE")
		},
		"name_failed_members_and_no_nested_batches": func(w *world) {
			c := maker(w)
			outer := make(w, c, client.BatchConfig{ID: "outer"}, "own")
			for n := range 3 {
				make(w, c, client.BatchConfig{ID: fmt.Sprint("inner", n), Parent: outer})
			}
			b, _, err := w.inspector.Batch(w.Context(), "outer")
			require.NoError(w, err)
			require.Equal(w, [4]int{7, 7, 0, 3}, [4]int{b.Total, b.Pending, b.Failed, b.Nested})
			require.Empty(w, b.FailedJIDs)
			w.do("SADD", w.keys.BatchFailed("outer"), "own")
			b, _, err = w.inspector.Batch(w.Context(), "outer")
			require.NoError(w, err)
			require.Equal(w, []any{1, []string{"own"}}, []any{b.Failed, b.FailedJIDs})
		},
		"name_the_same_failed_members_each_time": func(w *world) {
			make(w, maker(w), client.BatchConfig{ID: "large"})
			words := []string{"SADD", w.keys.BatchFailed("large")}
			for n := range 3003 {
				words = append(words, fmt.Sprint("jid", n))
			}
			w.do(words...)
			shown := func() Batch {
				b, _, err := w.inspector.Batch(w.Context(), "large")
				require.NoError(w, err)
				return b
			}
			first := shown()
			require.Equal(w, []int{3003, batchJIDs}, []int{first.Failed, len(first.FailedJIDs)})
			require.True(w, slices.IsSorted(first.FailedJIDs))
			require.Equal(w, first.FailedJIDs, shown().FailedJIDs)
			w.do("SREM", w.keys.BatchFailed("large"), first.FailedJIDs[7])
			after := shown().FailedJIDs
			require.Len(w, after, batchJIDs)
			require.Subset(w, after, slices.Delete(slices.Clone(first.FailedJIDs), 7, 8), "those that stay are named again")
		},
		"are_checked_for_members_that_are_nowhere": func(w *world) {
			c := maker(w)
			outer := make(w, c, client.BatchConfig{ID: "outer"}, "there", "gone")
			make(w, c, client.BatchConfig{ID: "inner", Parent: outer})
			w.do("LTRIM", w.keys.Queue("default"), "-1", "-1") // the youngest is gone
			check, found, err := w.inspector.CheckBatch(w.Context(), "outer", false)
			require.NoError(w, err)
			require.True(w, found)
			require.Equal(w, BatchCheck{ID: "outer", Looked: 4, Lost: []string{"gone"}, LostCount: 1}, check, "the end jobs of the inner one are to come")
			_, err = w.inspector.SealBatch(w.Context(), "inner")
			require.NoError(w, err)
			require.Equal(w, int64(3), w.do("LLEN", w.keys.Queue("default")), "they have come")
			check, _, err = w.inspector.CheckBatch(w.Context(), "outer", true)
			require.NoError(w, err)
			require.Equal(w, BatchCheck{ID: "outer", Looked: 4, Lost: []string{"gone"}, LostCount: 1, Removed: 1}, check)
			_, found, err = w.inspector.CheckBatch(w.Context(), "other", true)
			require.NoError(w, err)
			require.False(w, found)
		},
		"are_checked_while_a_nested_one_ends": func(w *world) {
			c := maker(w)
			outer := make(w, c, client.BatchConfig{ID: "outer"}, "gone")
			w.do("DEL", w.keys.Queue("default"))
			inner := make(w, c, client.BatchConfig{ID: "inner", Parent: outer})
			meanwhile := &meanwhile{Client: w.driver, key: w.keys.Batches(), do: func() { require.NoError(w, inner.Seal(w.Context())) }}
			check, _, err := w.inspector.WithDriver(meanwhile).CheckBatch(w.Context(), "outer", true)
			require.NoError(w, err)
			require.Nil(w, meanwhile.do, "it was sealed")
			require.Equal(w, BatchCheck{ID: "outer", Looked: 3, Lost: []string{"gone"}, LostCount: 1, Removed: 1}, check)
			require.Equal(w, int64(2), w.do("LLEN", w.keys.Queue("default")), "its end jobs")
		},
	})
}

// meanwhile is a client that does something once, before it sends the first call with a key.
type meanwhile struct {
	driver.Client
	key string
	do  func()
}

func (m *meanwhile) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	for _, call := range calls {
		if m.do != nil && (slices.Contains(call.Keys, m.key) || slices.Contains(call.Args, m.key)) {
			do := m.do
			m.do = nil
			do()
		}
	}
	return m.Client.Do(ctx, calls...)
}
