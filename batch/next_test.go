package batch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/batch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// with is the payload of a job with this field of next jobs.
func with(then string) string {
	return `{"retry":true,"queue":"q","belay_then":` + then + `,"args":[1],"class":"First","jid":"j1","created_at":1}`
}

const second = `{"retry":true,"queue":"r","odd": 1.0,"args":["belay_then"],"class":"Second","jid":"j2","created_at":1}`

var now = time.Unix(1_800_000_000, 0)

func TestOnlyAJobThatIsDoneHasNextJobs(t *testing.T) {
	t.Parallel()
	bytes := with("[" + second + `,{"class":"Third","jid":"j3","args":[]}]`)
	next, err := batch.Next(bytes, job.Done(), now, job.Millis)
	require.NoError(t, err)
	require.Equal(t, &lua.NextJobs{
		{Queue: "r", Bytes: strings.TrimSuffix(second, "}") + `,"enqueued_at":1800000000000}`},
		{Queue: "default", Bytes: `{"class":"Third","jid":"j3","args":[],"enqueued_at":1800000000000,"queue":"default"}`},
	}, next, "their bytes are those of the push, and enqueued_at")
	for _, outcome := range []job.Outcome{
		job.Retried(bytes, time.Second), job.Died(bytes), job.Discarded(false), job.Discarded(true), job.Expired(false), job.Expired(true),
		job.Cancelled(), job.Snoozed(bytes, time.Second), job.Requeued(), job.Unread(bytes),
	} {
		require.False(t, batch.HasNext(bytes, outcome), outcome.Exit())
		next, err := batch.Next(bytes, outcome, now, job.Millis)
		require.NoError(t, err)
		require.Nil(t, next, outcome.Exit())
	}
	next, err = batch.Next(second, job.Done(), now, job.Millis)
	require.NoError(t, err)
	require.Nil(t, next, "the name in an argument is not the field")
}

// In the payload of the job before they count from 1970, and those of the job after a next one still do.
func TestLimitsOfNextJobsCountFromTheInstantAtWhichTheyAreEnqueued(t *testing.T) {
	t.Parallel()
	third := `{"class":"Third","jid":"j3","args":[],"expires_in":60,"expiry":60.0,"belay_deadline_ms":90000}`
	limited := `{"queue":"r","class":"Second","jid":"j2","args":[],"belay_deadline_ms":1500,"belay_then":[` + third + `]}`
	next, err := batch.Next(with("["+limited+"]"), job.Done(), now, job.Millis)
	require.NoError(t, err)
	stored, err := job.Parse((*next)[0].Bytes)
	require.NoError(t, err)
	deadline, ok := stored.Deadline()
	require.True(t, ok)
	require.Equal(t, now.Add(1500*time.Millisecond), deadline)
	require.Equal(t, []string{third}, stored.Then())
	next, err = batch.Next(stored.Raw(), job.Done(), now.Add(time.Hour), job.Millis)
	require.NoError(t, err)
	stored, err = job.Parse((*next)[0].Bytes)
	require.NoError(t, err)
	startBy, ok := stored.StartBy()
	require.True(t, ok)
	require.Equal(t, now.Add(time.Hour+time.Minute), startBy)
	deadline, _ = stored.Deadline()
	require.Equal(t, now.Add(time.Hour+90*time.Second), deadline)
}

func TestNextJobsOfAForeignHandHarmNoJob(t *testing.T) {
	t.Parallel()
	for then, want := range map[string]string{
		`null`:                   "",
		`"text"`:                 "",
		`{}`:                     "",
		`[]`:                     "",
		`[1,` + second + `]`:     "next job 1",
		`[{"class":"NoJID"}]`:    "next job 1",
		`[` + second + `,"odd"]`: "next job 2",
		`[{"class":"A","jid":"j","args":[],"queue":"a\nb"}]`:    "a control character",
		"[" + strings.Repeat(second+",", 16) + second + "]":     "more than 16",
		`[{"class":"A","jid":"j","args":[],"queue":"","at":7}]`: "",
	} {
		next, err := batch.Next(with(then), job.Done(), now, job.Seconds)
		if want == "" {
			require.NoError(t, err, then)
		} else {
			require.ErrorContains(t, err, want, then)
		}
		if next != nil {
			require.LessOrEqual(t, len(*next), batch.MaxNext)
			require.NotEmpty(t, *next)
		}
		require.Equal(t, strings.Contains(then, `"Second"`) || strings.Contains(then, `"at":7`), next != nil, then)
	}
}
