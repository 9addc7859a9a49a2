package scheduler_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// A rig is a keyspace and a poller in it.
type rig struct {
	t      *testing.T
	client driver.Client
	keys   lua.Keys
	poller *scheduler.Poller
	marks  lua.Marks
	log    bytes.Buffer
}

func eachClient(t *testing.T, test func(r *rig)) {
	t.Helper()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		r := &rig{t: t, client: open(t, drivertest.Redis(t).URL()), keys: lua.NewKeys(drivertest.Prefix(t))}
		r.poller = scheduler.New(scheduler.Config{
			Round: patience, Client: r.client, Keys: r.keys, Clock: &lua.Clock{}, Log: slog.New(logbook.JSON(&r.log, slog.LevelDebug)), Largest: job.DefaultPayloadLimit + job.PayloadSlack,
			Marks: &r.marks,
		})
		test(r)
	})
}

func (r *rig) do(words ...string) any {
	r.t.Helper()
	reply := r.client.Do(context.Background(), driver.Command(words...))[0]
	require.NoError(r.t, reply.Err)
	return reply.Value
}

// due puts jobs into a set whose time has come, in this order.
func (r *rig) due(set string, jobs ...string) {
	r.t.Helper()
	for i, payload := range jobs {
		r.do("ZADD", set, strconv.Itoa(1_000_000_000+i), payload)
	}
}

func (r *rig) pass() time.Duration {
	r.t.Helper()
	next, err := r.poller.Pass(r.t.Context(), "me")
	require.NoError(r.t, err)
	return next
}

// renewLease gives the poller its lease again, where a busy machine may have been at something for as long as a
// lease lasts.
func (r *rig) renewLease() { r.do("SET", r.keys.Poller(), "me", "PX", "2000") }

// waiting reads a queue, the next one first.
func (r *rig) waiting(queue string) []string {
	r.t.Helper()
	parts, _ := r.do("LRANGE", r.keys.Queue(queue), "0", "-1").([]any)
	jobs := make([]string, len(parts))
	for i, part := range parts {
		jobs[len(parts)-1-i], _ = part.(string)
	}
	return jobs
}

const oddArgs = `[9007199254740993,12345678901234567890,1.0,1e21,-0,[],{},[[],{}],{"a":{"z":[]}},"é<&>\u2028/"]`

func TestPoller(t *testing.T) {
	t.Parallel()

	t.Run("promotes_what_is_due_with_a_fresh_enqueued_at_and_untouched_args", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(r *rig) {
			retried := `{"retry":true,"queue":"mail","args":` + oddArgs + `,"class":"A","jid":"1","created_at":1.5,"enqueued_at":2.5,"retry_count":3,"x_future":{"a":[1]}}`
			scheduled := `{"retry":true,"queue":"mail","args":` + oddArgs + `,"class":"A","jid":"2","created_at":1.5}`
			r.due(r.keys.Retry(), retried)
			r.due(r.keys.Schedule(), scheduled)
			r.pass()
			got := r.waiting("mail")
			require.Len(r.t, got, 2)
			for i, was := range []string{retried, scheduled} {
				now, err := job.Parse(got[i])
				require.NoError(r.t, err)
				require.Equal(r.t, oddArgs, now.ArgsJSON())
				at, ok := now.EnqueuedAt()
				require.True(r.t, ok)
				require.WithinDuration(r.t, time.Now(), at, time.Minute)
				before, _ := job.Parse(was)
				field, _ := now.Field("enqueued_at")
				require.Equal(r.t, before.Patch(job.Edit{Name: "enqueued_at", JSON: field}), got[i], "nothing else has changed")
			}
			require.Equal(r.t, int64(0), r.do("ZCARD", r.keys.Retry()))
			require.Equal(r.t, int64(0), r.do("ZCARD", r.keys.Schedule()))
			for _, jid := range []string{"1", "2"} {
				require.Regexp(r.t, `{"level":"debug","jid":"`+jid+`","class":"A","queue":"mail","time":"[^"]+","message":"promoted"}`, r.log.String())
			}
			require.Equal(r.t, int64(1), r.do("SISMEMBER", r.keys.Queues(), "mail"))
		})
	})

	t.Run("gets_past_any_number_of_jobs_that_cannot_be_moved", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(r *rig) {
			r.do("SET", r.keys.Queue("broken"), "no list")
			words := []string{"ZADD", r.keys.Schedule()}
			for i := range 9000 { // more than a pass comes to
				words = append(words, "1", fmt.Sprintf(`{"class":"A","args":[],"jid":"%d","queue":"broken"}`, i))
			}
			r.do(append(words, "2", `{"class":"A","args":[],"jid":"good","queue":"mail"}`)...)
			for range 2 {
				_, err := r.poller.Pass(r.t.Context(), "me")
				require.Error(r.t, err)
			}
			require.Len(r.t, r.waiting("mail"), 1)
			r.do("DEL", r.keys.Queue("broken"))
			for range 2 {
				r.pass()
			}
			require.Len(r.t, r.waiting("broken"), 9000, "none is passed over for good")
		})
	})

	t.Run("says_when_the_next_one_is_due_and_is_never_early", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(r *rig) {
			for tries := 0; ; tries++ {
				require.Less(r.t, tries, 200, "a pass takes a second")
				ahead := min(time.Duration(tries+1)*60*time.Millisecond, 900*time.Millisecond) // longer on a busy machine
				begun := time.Now()
				soon := begun.Add(ahead)
				if soon.Unix() != begun.Unix() {
					time.Sleep(time.Until(soon)) // in one second, so that code that cuts instants to seconds is found out
					continue
				}
				r.do("ZADD", r.keys.Schedule(), strconv.FormatFloat(float64(soon.UnixMicro())/1e6, 'f', 6, 64), job.Draft{Class: "A", Queue: "q"}.Encode())
				next := r.pass()
				r.do("DEL", r.keys.Schedule())
				if time.Now().After(soon) {
					r.do("DEL", r.keys.Queue("q")) // a busy machine: it may have come to its pass when the job was due
					continue
				}
				require.LessOrEqual(r.t, next, min(ahead, 100*time.Millisecond))
				require.Positive(r.t, next)
				require.Empty(r.t, r.waiting("q"))
				break
			}
			require.Equal(r.t, 100*time.Millisecond, r.pass(), "with nothing in sight it looks again soon, for what Ruby schedules")
		})
	})

	t.Run("what_cannot_be_read_dies_with_its_reason_and_its_text", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(r *rig) {
			bad := []string{"{", "", "\xff", "[]", "null", `{"class":"A","args":null,"jid":"1"}`, strings.Repeat("[", 1001), strings.Repeat("z", 5<<20),
				`{"class":"A","args":[],"jid":"1","queue":"a\nb"}`}
			good := job.Draft{Class: "A", Queue: "q"}.Encode()
			r.due(r.keys.Schedule(), append(bad, good)...)
			r.pass()
			require.Len(r.t, r.waiting("q"), 1)
			var dead []string
			for _, entry := range r.do("ZRANGE", r.keys.Dead(), "0", "-1").([]any) {
				dead = append(dead, asPushed(r.t, entry.(string)))
			}
			for _, entry := range bad {
				require.Contains(r.t, dead, entry)
			}
			require.Len(r.t, dead, len(bad))
			for _, counter := range []string{r.keys.Processed(), r.keys.Failed()} {
				require.Equal(r.t, strconv.Itoa(len(bad)), r.do("GET", counter), counter)
			}
		})
	})

	t.Run("a_job_without_a_queue_goes_where_ruby_sends_it_and_a_stale_at_is_dropped", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(r *rig) {
			r.due(r.keys.Schedule(), `{"class":"A","args":[],"jid":"1","at":99999999999.5}`)
			r.pass()
			got := r.waiting("default")
			require.Len(r.t, got, 1)
			require.Contains(r.t, got[0], `"queue":"default"`)
			require.NotContains(r.t, got[0], `"at":`)
		})
	})

	t.Run("a_broken_queue_holds_up_no_other", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(r *rig) {
			r.do("SET", r.keys.Queue("broken"), "no list")
			var jobs []string
			for range 300 {
				jobs = append(jobs, job.Draft{Class: "A", Queue: "broken"}.Encode())
			}
			r.due(r.keys.Schedule(), append(jobs, job.Draft{Class: "A", Queue: "good"}.Encode())...)
			_, err := r.poller.Pass(r.t.Context(), "me")
			require.ErrorContains(r.t, err, "broken")
			require.Len(r.t, r.waiting("good"), 1)
			require.Equal(r.t, int64(300), r.do("ZCARD", r.keys.Schedule()), "none is lost")
		})
	})

	t.Run("one_process_polls_and_its_understudy_takes_over", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(r *rig) {
			r.pass()
			r.due(r.keys.Schedule(), job.Draft{Class: "A", Queue: "q"}.Encode())
			r.renewLease()
			next, err := r.poller.Pass(r.t.Context(), "another")
			require.NoError(r.t, err)
			require.Equal(r.t, lua.StandBy, next, "a heartbeat wakes it")
			require.Empty(r.t, r.waiting("q"))
			r.do("DEL", r.keys.Poller()) // as if the poller had died and its lease had ended
			_, err = r.poller.Pass(r.t.Context(), "another")
			require.NoError(r.t, err)
			require.Len(r.t, r.waiting("q"), 1)
		})
	})

	t.Run("many_due_at_one_instant_are_promoted_each_once_in_order", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(r *rig) {
			words := []string{"ZADD", r.keys.Schedule()}
			for n := range 3000 {
				words = append(words, "1000000000", job.Draft{Class: "A", Queue: "q", JID: fmt.Sprintf("%06d", n)}.Encode())
			}
			r.do(words...)
			r.pass()
			got := r.waiting("q")
			require.Len(r.t, got, 3000)
			for n, payload := range got {
				require.Contains(r.t, payload, fmt.Sprintf("%06d", n))
			}
		})
	})
}

// The log says that a job was moved to the dead set once it is there, not at each pass that Redis refuses.
func TestUnreadableDueJobsAreLoggedOnceTheyAreMoved(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		moved := func() int { return strings.Count(r.log.String(), "moved to the dead set: unreadable due job") }
		r.do("SET", r.keys.Dead(), "another program's")
		r.due(r.keys.Schedule(), "garbage", `{"class":"A","jid":"1","args":[],"queue":"a\nb"}`)
		for range 3 {
			_, err := r.poller.Pass(r.t.Context(), "me")
			require.ErrorContains(r.t, err, "WRONGTYPE")
		}
		require.Zero(r.t, moved(), "they are where they were")
		r.do("DEL", r.keys.Dead())
		r.pass()
		r.pass()
		require.Equal(r.t, int64(2), r.do("ZCARD", r.keys.Dead()))
		require.Equal(r.t, 2, moved(), r.log.String())
		require.Contains(r.t, r.log.String(), `"error":"unreadable job: not a JSON object","bytes":7,`)
	})
}

// A user who may take a job out of the schedule but not push it must not lose it in between.
func TestDeniedCommands(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t)
	client := adapters.All["go-redis"](t, server.URL())
	r := &rig{t: t, client: client, keys: lua.NewKeys("p")}
	r.poller = scheduler.New(scheduler.Config{Round: patience, Client: client, Keys: r.keys, Clock: &lua.Clock{}, Largest: job.DefaultPayloadLimit})
	r.due(r.keys.Schedule(), job.Draft{Class: "A", Queue: "q"}.Encode())
	_, err := server.Do(t.Context(), "ACL", "SETUSER", "default", "-lpush")
	require.NoError(t, err)
	_, err = r.poller.Pass(t.Context(), "me")
	require.ErrorContains(t, err, "NOPERM")
	require.Equal(t, int64(1), r.do("ZCARD", r.keys.Schedule()), "not lost")
	_, err = server.Do(t.Context(), "ACL", "SETUSER", "default", "+lpush")
	require.NoError(t, err)
	r.pass()
	require.Len(t, r.waiting("q"), 1)
}

// asPushed is the text of an entry of the dead set as it was before it died unread.
func asPushed(t testing.TB, entry string) string {
	t.Helper()
	parsed, err := job.Parse(entry)
	require.NoError(t, err, "%.200q", entry)
	class, _ := parsed.Text("error_class")
	message, _ := parsed.Text("error_message")
	require.NotEmpty(t, class)
	require.NotEmpty(t, message)
	raw, ok := parsed.Kept()
	require.True(t, ok, "%.200q", entry)
	return raw
}
