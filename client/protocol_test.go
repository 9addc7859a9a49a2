package client

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

func TestAPushThatNeedsMoreThanAWorkerUnderstandsIsRefused(t *testing.T) {
	const newer = lua.Protocol + 1
	worker := func(w *world, identity, protocol string) {
		_, err := w.keys.Register(identity, lua.Record{Queues: []string{"default"}, TTL: time.Minute}).Do(w.Context(), w.client.spaces[0].driver)
		require.NoError(w, err)
		w.client.spaces[0].driver.Do(w.Context(), driver.Command("HSET", w.keys.Record(identity), "protocol", protocol))
	}
	stored := func(w *world) any {
		return w.client.spaces[0].driver.Do(w.Context(), driver.Command("LLEN", w.keys.Queue("default")))[0].Value
	}
	promises(t, Config{}, map[string]func(w *world){
		"and_the_error_names_the_process": func(w *world) {
			worker(w, "new:1:aa", strconv.Itoa(newer))
			worker(w, "old:1:bb", strconv.Itoa(lua.Protocol))
			receipt, err := w.client.Push(w.Context(), RawJob{Class: "A", needs: newer})
			require.ErrorIs(w, err, ErrOldWorker)
			require.ErrorContains(w, err, "old:1:bb")
			require.Equal(w, StatusNotPushed, receipt.Status)
			receipts, err := w.client.PushMany(w.Context(), slices.Values([]RawJob{{Class: "A"}, {Class: "A", needs: newer}}))
			require.ErrorIs(w, err, ErrOldWorker)
			require.Len(w, receipts, 2)
			require.Equal(w, StatusNotPushed, receipts[0].Status)
			require.Equal(w, int64(0), stored(w))
			_, err = w.client.Push(w.Context(), RawJob{Class: "A"})
			require.NoError(w, err, "what every worker understands is pushed")
		},
		"and_one_that_all_understand_is_stored": func(w *world) {
			worker(w, "new:1:aa", strconv.Itoa(newer))
			_, err := w.client.Push(w.Context(), RawJob{Class: "A", needs: newer})
			require.NoError(w, err)
			require.Equal(w, int64(1), stored(w))
		},
		"as_is_one_whose_late_start_an_old_worker_would_not_prevent": func(w *world) {
			worker(w, "new:1:aa", strconv.Itoa(lua.Protocol))
			worker(w, "old:1:bb", strconv.Itoa(lua.ExpiryProtocol-1))
			for _, j := range []RawJob{{Class: "A", ExpiresIn: time.Hour}, {Class: "A", Deadline: time.Hour}} {
				receipt, err := w.client.Push(w.Context(), j)
				require.ErrorIs(w, err, ErrOldWorker)
				require.ErrorContains(w, err, "old:1:bb")
				require.Equal(w, StatusNotPushed, receipt.Status)
			}
			_, err := w.client.Push(w.Context(), RawJob{Class: "A", Track: time.Hour})
			require.NoError(w, err, "Wait shows what an old worker did not keep")
			p, _, err := w.client.Prepare(w.Context(), RawJob{Class: "A", Deadline: time.Hour})
			require.NoError(w, err)
			_, err = w.client.PushPrepared(w.Context(), IdempotencyKey{Scope: "s", Number: 1, Mark: "m"}, []Prepared{p})
			require.NoError(w, err, "a committed job does not wait for a deploy")
			require.Equal(w, int64(2), stored(w))
		},
		"and_that_no_worker_is_old_is_read_once_for_many_pushes": func(w *world) {
			worker(w, "new:1:aa", strconv.Itoa(lua.Protocol))
			for range 10 {
				_, err := w.client.Push(w.Context(), RawJob{Class: "A", Deadline: time.Hour})
				require.NoError(w, err)
			}
			require.LessOrEqual(w, w.proxy.Count("ZRANGEBYSCORE"), 4) // two pages; again if the machine is slow
			require.Equal(w, int64(10), stored(w))
		},
		"and_today's_jobs_cost_no_round_trip_for_it": func(w *world) {
			worker(w, "old:1:bb", "0")
			_, err := w.client.Push(w.Context(), RawJob{Class: "A"})
			require.NoError(w, err)
			require.Zero(w, w.proxy.Count("ZRANGEBYSCORE"))
		},
	})
}
