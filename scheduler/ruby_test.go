package scheduler_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// Jobs of queues that only Ruby takes come due as with Ruby's own poller, whatever Belay could run of them.
func TestDueJobsOfRubysQueuesAreMovedAndNotJudged(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 3<<20)
	for name, payload := range map[string]string{
		"larger than any job of Belay's":              `{"retry":true,"queue":"ruby","class":"Big","args":["` + large + `"],"jid":"1","created_at":1.5}`,
		"large, with its queue behind the args":       `{"class":"Big","args":["` + large + `",{"a":1,"queue":"no"}],"jid":"1","queue":"ruby","created_at":1.5}`,
		"large, with what looks like a queue in args": `{"queue":"ruby","class":"Big","args":["` + large + `",{"queue":"no"},",\"queue\":\"no\""],"jid":"1"}`,
		"without a jid":                   `{"queue":"ruby","class":"A","args":[]}`,
		"with a number as its jid":        `{"queue":"ruby","class":"A","args":[],"jid":17}`,
		"with a text as its retry_count":  `{"queue":"ruby","class":"A","args":[],"jid":"1","retry_count":"1"}`,
		"interrupted by Ruby three times": `{"queue":"ruby","class":"A","args":[],"jid":"1","interrupted_count":3}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachClient(t, func(r *rig) {
				r.due(r.keys.Retry(), payload)
				r.due(r.keys.Schedule(), payload)
				r.pass()
				got := r.waiting("ruby")
				require.Len(r.t, got, 2, "dead: %.300v", r.do("ZRANGE", r.keys.Dead(), "0", "-1"))
				for _, entry := range got {
					require.Equal(r.t, payload, withoutEnqueuedAt(r.t, entry))
				}
				require.Equal(r.t, int64(0), r.do("EXISTS", r.keys.Dead(), r.keys.Failed(), r.keys.Quarantine("ruby"), r.keys.Schedule(), r.keys.Retry()))
				require.Equal(r.t, int64(1), r.do("SISMEMBER", r.keys.Queues(), "ruby"))
				require.NotRegexp(r.t, `"level":"(info|warn|error)"`, r.log.String())
			})
		})
	}
}

// withoutEnqueuedAt is a payload as it was before a poller moved it.
func withoutEnqueuedAt(t *testing.T, payload string) string {
	t.Helper()
	if len(payload) > job.DefaultPayloadLimit {
		return payload
	}
	parsed, err := job.ParseToMove(payload)
	require.NoError(t, err)
	return parsed.Patch(job.Remove("enqueued_at"))
}

// On the queues of Belay's workers too: a worker moves them to the dead set, with all that ends with a job.
func TestDueJobsThatNoWorkerCanRunMoveAsTheyAre(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		r.poller = scheduler.New(scheduler.Config{
			Round: patience, Client: r.client, Keys: r.keys, Clock: &lua.Clock{}, Largest: job.DefaultPayloadLimit, Queues: func() []string { return []string{"own"} },
		})
		payload := `{"queue":"own","class":"A","args":[],"jid":"1","retry_count":"1","interrupted_count":2}`
		r.due(r.keys.Retry(), payload)
		r.pass()
		require.Equal(r.t, []string{payload}, r.waiting("own"))
		require.Equal(r.t, int64(0), r.do("EXISTS", r.keys.Dead(), r.keys.Failed(), r.keys.Quarantine("own"), r.keys.Retry()))
	})
}

// A job that was in a process when it crashed runs alone, on the queues of Belay's workers.
func TestDueJobsAreQuarantinedOnQueuesOfBelaysWorkers(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		r.poller = scheduler.New(scheduler.Config{
			Round: patience, Client: r.client, Keys: r.keys, Clock: &lua.Clock{}, Largest: job.DefaultPayloadLimit, Queues: func() []string { return []string{"own"} },
		})
		_, err := r.keys.Register("h:1:other", lua.Record{Queues: []string{"other"}, TTL: time.Hour, Beat: time.Second}).Do(r.t.Context(), r.client)
		require.NoError(r.t, err)
		for _, queue := range []string{"own", "other", "ruby"} {
			r.due(r.keys.Retry(), `{"queue":"`+queue+`","class":"A","args":[],"jid":"1","interrupted_count":2}`)
		}
		r.pass()
		for queue, quarantined := range map[string]int64{"own": 1, "other": 1, "ruby": 0} {
			require.Equal(r.t, quarantined, r.do("LLEN", r.keys.Quarantine(queue)), queue)
			require.Equal(r.t, 1-quarantined, r.do("LLEN", r.keys.Queue(queue)), queue)
		}
	})
}

// With poll: off, Ruby's poller has all due jobs, and periodic jobs fire nevertheless.
func TestAPollerThatIsOffPromotesNothing(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		r := &rig{t: t, client: open(t, drivertest.Redis(t).URL()), keys: lua.NewKeys(drivertest.Prefix(t))}
		var log bytes.Buffer
		off := scheduler.New(scheduler.Config{Round: patience, Client: r.client, Keys: r.keys, Clock: &lua.Clock{}, Log: slog.New(logbook.JSON(&log, slog.LevelDebug)), Largest: job.DefaultPayloadLimit, Off: true})
		r.due(r.keys.Schedule(), job.Draft{Class: "A", Queue: "q"}.Encode())
		left, renewed := int64(1<<62), false
		drivertest.Eventually(t, func() bool { // until it has renewed its lease, which it needs for the ticks
			_, err := off.Pass(t.Context(), "me")
			require.NoError(t, err)
			before := left
			left, _ = r.do("PTTL", r.keys.Poller()).(int64)
			renewed = renewed || left > before
			return renewed
		}, 20*time.Second, 10*time.Millisecond)
		require.Empty(t, r.waiting("q"))
		require.Equal(t, int64(1), r.do("ZCARD", r.keys.Schedule()))
		require.Empty(t, log.String())
	})
}
