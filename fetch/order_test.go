package fetch

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func newOrder(t *testing.T, queues ...Queue) *QueueOrder {
	t.Helper()
	order, err := NewQueueOrder(queues, rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, err)
	return order
}

func TestOrder(t *testing.T) {
	t.Parallel()
	t.Run("without_weights_is_as_given_every_turn", func(t *testing.T) {
		t.Parallel()
		order := newOrder(t, Queue{Name: "critical"}, Queue{Name: "mail"}, Queue{Name: "low"})
		require.True(t, order.Strict())
		for range 100 {
			require.Equal(t, []string{"critical", "mail", "low"}, order.Next())
		}
	})
	t.Run("with_weights_a_queue_comes_first_as_often_as_it_weighs", func(t *testing.T) {
		t.Parallel()
		order := newOrder(t, Queue{Name: "high", Weight: 3}, Queue{Name: "low", Weight: 1})
		first := map[string]int{}
		const turns = 10_000
		for range turns {
			turn := order.Next()
			require.Len(t, turn, 2)
			first[turn[0]]++
		}
		require.InDelta(t, 0.75, float64(first["high"])/turns, 0.03)
	})
	t.Run("with_weights_of_one_is_random", func(t *testing.T) {
		t.Parallel()
		order := newOrder(t, Queue{Name: "a", Weight: 1}, Queue{Name: "b", Weight: 1}, Queue{Name: "c", Weight: 1})
		first := map[string]int{}
		for range 9_000 {
			first[order.Next()[0]]++
		}
		for queue, count := range first {
			require.InDelta(t, 3_000, count, 300, queue)
		}
	})
	t.Run("a_queue_named_twice_weighs_two", func(t *testing.T) {
		t.Parallel()
		order := newOrder(t, Queue{Name: "a"}, Queue{Name: "b"}, Queue{Name: "a"})
		require.Equal(t, []string{"a", "b"}, order.Names())
		require.False(t, order.Strict())
		first := 0
		for range 9_000 {
			if order.Next()[0] == "a" {
				first++
			}
		}
		require.InDelta(t, 6_000, first, 300)
	})
	t.Run("refuses_what_cannot_work", func(t *testing.T) {
		t.Parallel()
		many := make([]Queue, 129)
		for i := range many {
			many[i].Name = "q" + strings.Repeat("x", i)
		}
		for _, queues := range [][]Queue{nil, {{Name: ""}}, {{Name: "a\nb"}}, {{Name: "a", Weight: -1}}, {{Name: "a", Weight: 1 << 30}}, many} {
			_, err := NewQueueOrder(queues, rand.New(rand.NewPCG(1, 2)))
			require.Error(t, err)
		}
	})
}

func TestPatternsInAnOrder(t *testing.T) {
	t.Parallel()
	t.Run("stand_for_no_queue_before_one_is_found", func(t *testing.T) {
		t.Parallel()
		order := newOrder(t, Queue{Name: "tenant-*"})
		require.True(t, order.Patterns())
		require.Empty(t, order.Names())
		require.Empty(t, order.Next())
		require.Equal(t, "tenant-*", order.PatternOf("tenant-1"))
		require.Empty(t, order.PatternOf("other"))
	})
	t.Run("have_one_place_in_a_strict_order_and_are_random_among_each_other", func(t *testing.T) {
		t.Parallel()
		order := newOrder(t, Queue{Name: "first"}, Queue{Name: "t*"}, Queue{Name: "last"}).Matching([]string{"t3", "t1", "other", "t2", "last"})
		require.True(t, order.Strict())
		require.Equal(t, []string{"first", "t1", "t2", "t3", "last"}, order.Names())
		second := map[string]int{}
		for range 9_000 {
			turn := order.Next()
			require.Equal(t, "first", turn[0])
			require.Equal(t, "last", turn[4])
			require.ElementsMatch(t, []string{"t1", "t2", "t3"}, turn[1:4])
			second[turn[1]]++
		}
		for queue, count := range second {
			require.InDelta(t, 3_000, count, 300, queue)
		}
		require.Equal(t, []string{"first", "t1", "t2", "t3", "last"}, order.Names(), "a turn changes no other order")
	})
	t.Run("give_each_queue_their_weight", func(t *testing.T) {
		t.Parallel()
		order := newOrder(t, Queue{Name: "a", Weight: 1}, Queue{Name: "t*", Weight: 2}).Matching([]string{"t1", "t2"})
		require.Equal(t, map[string]int{"a": 1, "t1": 2, "t2": 2}, order.Weights())
		first := map[string]int{}
		for range 10_000 {
			first[order.Next()[0]]++
		}
		require.InDelta(t, 2_000, first["a"], 300)
		require.InDelta(t, 4_000, first["t1"], 400)
	})
	t.Run("take_no_queue_that_is_named_by_itself_or_matches_an_earlier_one", func(t *testing.T) {
		t.Parallel()
		order := newOrder(t, Queue{Name: "t*"}, Queue{Name: "t1"}, Queue{Name: "t*2"}).Matching([]string{"t1", "t2"})
		require.Equal(t, []string{"t2", "t1"}, order.Names())
		require.Equal(t, []string{"t1"}, order.Matching(nil).Names())
	})
}
