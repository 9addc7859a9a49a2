package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

func TestOnlyThePollerSamplesTheLargestQueues(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		sampler := scheduler.NewSampler(scheduler.Config{Client: r.client, Keys: r.keys, Clock: &lua.Clock{}, Largest: job.DefaultPayloadLimit})
		sample := func() (samples []lua.Sample) {
			require.NoError(r.t, sampler.Pass(t.Context(), "me"))
			page, err := r.keys.Page(r.keys.Samples(), lua.OrderLowest, 0, lua.MaxItems, lua.MaxBytes).Do(t.Context(), r.client)
			require.NoError(r.t, err)
			for _, entry := range page.Entries {
				s, ok := lua.SampleOf(entry)
				require.True(r.t, ok, entry.Bytes)
				samples = append(samples, s)
			}
			return samples
		}
		payload := func(enqueued time.Duration, args string) string {
			return job.Draft{Class: "C", JID: "j", Queue: "q", ArgsJSON: args, EnqueuedAt: time.Now().Add(-enqueued)}.Encode()
		}
		r.do("SET", r.keys.Processed(), "70")
		r.do("SET", r.keys.Failed(), "7")
		for n := range lua.MaxSampled + 3 {
			queue := fmt.Sprintf("q%02d", n)
			r.do("SADD", r.keys.Queues(), queue)
			for range n % 3 {
				r.do("RPUSH", r.keys.Queue(queue), payload(time.Hour, "[1]")) // the oldest is on the right
			}
		}
		r.do("LPUSH", r.keys.Queue("q01"), payload(time.Minute, "[1]"))
		r.do("LPUSH", r.keys.Queue("q01"), payload(time.Minute, "[1]"))
		r.do("LPUSH", r.keys.Queue("q02"), payload(2*time.Hour, "[1]"))
		r.do("RPUSH", r.keys.Queue("q02"), payload(2*time.Hour, `["`+strings.Repeat("x", 100_000)+`"]`))
		r.do("RPUSH", r.keys.Queue("q05"), "not a job")
		r.do("SADD", r.keys.Queues(), strings.Repeat("long", 100), "text")
		r.do("SET", r.keys.Queue("text"), "not a list")

		require.Empty(r.t, sample(), "no process polls")
		r.do("SET", r.keys.Poller(), "another")
		require.Empty(r.t, sample(), "another process polls")
		r.do("SET", r.keys.Poller(), "me")
		samples := sample()
		require.Len(r.t, samples, 1)
		require.Len(r.t, sample(), 1, "a second sample of the same minute")
		s := samples[0]
		require.WithinDuration(r.t, time.Now(), s.At, time.Minute)
		require.Equal(r.t, []int64{70, 7}, []int64{s.Processed, s.Failed})
		require.Len(r.t, s.Queues, lua.MaxSampled)
		for n, want := range []lua.QueueSample{{Name: "q02", Size: 4, Latency: 2 * time.Hour}, {Name: "q01", Size: 3, Latency: time.Hour}, {Name: "q05", Size: 3}, {Name: "q08", Size: 2, Latency: time.Hour}} {
			got := s.Queues[n]
			require.Equal(r.t, []any{want.Name, want.Size}, []any{got.Name, got.Size})
			require.InDelta(r.t, want.Latency.Seconds(), got.Latency.Seconds(), 60, want.Name)
		}
		require.Equal(r.t, lua.QueueSample{Name: "q00"}, s.Queues[10], "an empty queue has a line in the plots, too")
	})
}

func TestASampleHasTheLargestOfManyQueues(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		sampler := scheduler.NewSampler(scheduler.Config{Client: r.client, Keys: r.keys, Clock: &lua.Clock{}, Largest: job.DefaultPayloadLimit})
		names, want := []string{"SADD", r.keys.Queues()}, []string{}
		for n := range 2000 {
			names = append(names, fmt.Sprintf("q%04d", n))
		}
		r.do(names...)
		for n := range lua.MaxSampled {
			want = append(want, fmt.Sprintf("q%04d", 150*n))
			r.do("LPUSH", r.keys.Queue(want[n]), "a job")
		}
		r.do("SET", r.keys.Poller(), "me")
		require.NoError(r.t, sampler.Pass(t.Context(), "me"))
		page, err := r.keys.Page(r.keys.Samples(), lua.OrderLowest, 0, 1, lua.MaxBytes).Do(t.Context(), r.client)
		require.NoError(r.t, err)
		sample, ok := lua.SampleOf(page.Entries[0])
		require.True(r.t, ok)
		var got []string
		for _, queue := range sample.Queues {
			got = append(got, queue.Name)
		}
		require.Equal(r.t, want, got)
	})
}
