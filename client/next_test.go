package client

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/batch"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// nextIn returns the next jobs in a payload.
func (w *world) nextIn(payload string) (jobs []*job.Job) {
	w.Helper()
	parsed, err := job.Parse(payload)
	require.NoError(w, err)
	for _, text := range parsed.Then() {
		next, err := job.Parse(text)
		require.NoError(w, err)
		_, enqueued := next.EnqueuedAt()
		require.False(w, enqueued, text)
		require.Equal(w, parsed.JID(), next.After(), text)
		require.NotEmpty(w, next.JID())
		jobs = append(jobs, next)
	}
	return jobs
}

func TestNextJobsTravelInThePayload(t *testing.T) {
	sequence := RawJob{Class: "A", Then: []RawJob{
		{Class: "B", Queue: "low", Args: []any{1}, Track: time.Hour, Then: []RawJob{{Class: "C", JID: "given"}}},
		{Class: "D", Meta: map[string]string{"tenant": "t"}},
	}}
	promises(t, Config{DeduplicateIdempotent: true}, map[string]func(w *world){
		"of_one_job_and_of_many": func(w *world) {
			sequence := sequence
			sequence.Then = slices.Clone(sequence.Then)
			sequence.Then[1].Idempotent = true
			_, err := w.client.Push(w.Context(), sequence)
			require.NoError(w, err)
			_, err = w.client.PushMany(w.Context(), slices.Values([]RawJob{sequence, sequence}))
			require.NoError(w, err)
			jids := make(map[string]bool)
			payloads := w.queue(DefaultQueue)
			require.Len(w, payloads, 3)
			for _, payload := range payloads {
				next := w.nextIn(payload)
				require.Len(w, next, 2)
				require.Equal(w, []string{"B", "D"}, []string{next[0].Class(), next[1].Class()})
				require.Equal(w, []string{"low", DefaultQueue}, []string{next[0].Queue(), next[1].Queue()})
				require.Equal(w, "[1]", next[0].ArgsJSON())
				require.False(w, dedup.Has(payload), "a next job is not unique")
				last := w.nextIn(next[0].Raw())
				require.Equal(w, "given", last[0].JID())
				jids[next[0].JID()], jids[next[1].JID()] = true, true
			}
			require.Len(w, jids, 6, "each has an id of its own")
			require.Empty(w, sequence.Then[0].JID, "the caller's jobs are as they were")
		},
		"of_a_prepared_job": func(w *world) {
			p, _, err := w.client.Prepare(w.Context(), sequence)
			require.NoError(w, err)
			_, err = w.client.PushPrepared(w.Context(), IdempotencyKey{Scope: "s", Number: 1, Mark: "m"}, []Prepared{p})
			require.NoError(w, err)
			require.Len(w, w.nextIn(w.queue(DefaultQueue)[0]), 2)
		},
		"of_a_scheduled_and_of_a_unique_job": func(w *world) {
			later := sequence
			later.In, later.Unique = time.Hour, &dedup.Rule{Until: dedup.UntilExecuted, IncludingScheduled: true}
			_, err := w.client.Push(w.Context(), later)
			require.NoError(w, err)
			stored := w.do("ZRANGE", w.keys.Schedule(), "0", "-1").([]any)
			require.Len(w, w.nextIn(stored[0].(string)), 2)
			before, _, _ := strings.Cut(stored[0].(string), `"`+job.FieldThen+`"`)
			require.Contains(w, before, dedup.FieldName, "what is read of the beginning of a payload is the job's own")
		},
		"but_not_past_a_worker_that_would_drop_them": func(w *world) {
			_, err := w.keys.Register("old:1:bb", lua.Record{Queues: []string{"default"}, TTL: time.Minute}).Do(w.Context(), w.client.spaces[0].driver)
			require.NoError(w, err)
			w.client.spaces[0].driver.Do(w.Context(), driver.Command("HSET", w.keys.Record("old:1:bb"), "protocol", strconv.Itoa(lua.NextProtocol-1)))
			_, err = w.client.Push(w.Context(), sequence)
			require.ErrorIs(w, err, ErrOldWorker)
			require.Empty(w, w.queue(DefaultQueue))
		},
		"and_pass_the_middleware": func(w *world) {
			var saw, reported []string
			refuse := ""
			w.client.Use("m", func(_ context.Context, j *RawJob) error {
				saw = append(saw, j.Class)
				j.Tags = append(j.Tags, "seen")
				j.OnPushed(func(r Receipt, err error) {
					reported = append(reported, j.Class+" "+string(r.Status))
					require.Equal(w, j.JID, r.JID)
				})
				if j.Class == refuse {
					return Refuse("not today")
				}
				return nil
			})
			_, err := w.client.Push(w.Context(), sequence)
			require.NoError(w, err)
			require.Equal(w, []string{"A", "B", "C", "D"}, saw)
			require.ElementsMatch(w, []string{"A queued", "B queued", "C queued", "D queued"}, reported)
			require.Equal(w, 4, strings.Count(w.queue(DefaultQueue)[0], `"tags":["seen"]`))
			refuse, reported = "C", nil
			receipt, err := w.client.Push(w.Context(), sequence)
			_, invalid := errors.AsType[*InvalidError](err)
			require.True(w, invalid)
			require.ErrorContains(w, err, "its next job C: not today")
			require.Equal(w, StatusNotPushed, receipt.Status)
			require.ElementsMatch(w, []string{"A not_pushed", "B not_pushed", "C not_pushed"}, reported, "who was asked is told")
			require.Len(w, w.queue(DefaultQueue), 1)
		},
	})
}

func TestNextJobsThatCannotBePushed(t *testing.T) {
	t.Parallel()
	long := RawJob{Class: "A"}
	for range batch.MaxSequence {
		long = RawJob{Class: "A", Then: []RawJob{long}}
	}
	for name, c := range map[string]struct {
		next RawJob
		want string
	}{
		"a delay":          {RawJob{Class: "B", In: time.Hour}, "its next job B: a next job is pushed when"},
		"a time":           {RawJob{Class: "B", At: time.Now()}, "it has no In, At"},
		"a key":            {RawJob{Class: "B", Key: "k"}, "it has no In, At"},
		"a lock":           {RawJob{Class: "B", Unique: &dedup.Rule{Until: dedup.UntilExecuting}}, "use NotUnique"},
		"an expiry":        {RawJob{Class: "B", ExpiresIn: -time.Hour}, "its next job B: expires in -1h0m0s"},
		"a deadline":       {RawJob{Class: "B", Deadline: -time.Hour}, "its next job B: deadline -1h0m0s"},
		"replicas":         {RawJob{Class: "B", Replicas: 1}, "it has no In, At"},
		"a batch":          {RawJob{Class: "B", Batch: &Batch{}}, "it has no In, At"},
		"no class":         {RawJob{}, "its next job : the name of the class is empty"},
		"arguments":        {RawJob{Class: "B", ArgsJSON: "{}"}, "its next job B: args: not a JSON array"},
		"a field":          {RawJob{Class: "B", Extra: []job.Edit{{Name: job.FieldAfter, JSON: `"x"`}}}, "use Then"},
		"one of its own":   {RawJob{Class: "B", Then: []RawJob{{Class: "C", In: 1}}}, "its next job B: its next job C: "},
		"too many in line": {long, "33 jobs follow one another, and 32 are allowed"},
	} {
		require.ErrorContains(t, RawJob{Class: "A", Then: []RawJob{c.next}}.Check(), c.want, name)
	}
	require.NoError(t, long.Then[0].Check(), "as many as are allowed")
	many := make([]RawJob, batch.MaxNext+1)
	for at := range many {
		many[at].Class = "B"
	}
	require.ErrorContains(t, RawJob{Class: "A", Then: many}.Check(), "it has 17 next jobs, and 16 are allowed")
	require.NoError(t, RawJob{Class: "A", Then: many[1:]}.Check())
	_, err := Periodic{Name: "p", Cron: "@daily", Job: RawJob{Class: "A", Then: many[:1]}}.Definition()
	require.ErrorContains(t, err, "its next jobs would have the same ids at each tick")
	large := RawJob{Class: "A", Then: []RawJob{{Class: "B", Args: []any{strings.Repeat("x", job.DefaultPayloadLimit)}}}}
	var w writer
	large.setDefaults(&w)
	err = (&Client{cfg: Config{PayloadLimit: job.DefaultPayloadLimit}}).complete(&w, &large, time.Now(), false, new(ready))
	require.ErrorContains(t, err, "with its next jobs")
}
