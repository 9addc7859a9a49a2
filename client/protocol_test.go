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
		_, err := w.keys.Register(identity, lua.Record{Queues: []string{"default"}, TTL: time.Minute}).Do(w.Context(), w.client.driver)
		require.NoError(w, err)
		w.client.driver.Do(w.Context(), driver.Command("HSET", w.keys.Record(identity), "protocol", protocol))
	}
	stored := func(w *world) any {
		return w.client.driver.Do(w.Context(), driver.Command("LLEN", w.keys.Queue("default")))[0].Value
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
		"and_today's_jobs_cost_no_round_trip_for_it": func(w *world) {
			worker(w, "old:1:bb", "0")
			_, err := w.client.Push(w.Context(), RawJob{Class: "A"})
			require.NoError(w, err)
			require.Zero(w, w.proxy.Count("ZRANGEBYSCORE"))
		},
	})
}
