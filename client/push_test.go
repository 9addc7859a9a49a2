package client

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
)

func TestPush(t *testing.T) {
	promises(t, Config{}, map[string]func(w *world){
		"stores a job that Ruby would have written": func(w *world) {
			receipt, err := w.client.Push(w.Context(), RawJob{Class: "WelcomeEmail", Args: []any{42, "é<", 1.0}, Queue: "mail"})
			require.NoError(w, err)
			require.Equal(w, Receipt{JID: receipt.JID, Queue: "mail", Status: StatusQueued}, receipt)
			require.Regexp(w, `^[0-9a-f]{24}$`, receipt.JID)
			stored := w.queue("mail")
			require.Len(w, stored, 1)
			require.Regexp(w, `^\{"retry":true,"queue":"mail","args":\[42,"é<",1\.0\],"class":"WelcomeEmail","jid":"`+receipt.JID+
				`","created_at":\d+\.\d+,"enqueued_at":\d+\.\d+\}$`, stored[0])
			require.Equal(w, []any{"mail"}, w.do("SMEMBERS", w.keys.Queues()))
		},
		"goes to the default queue with its options": func(w *world) {
			_, err := w.client.Push(w.Context(), RawJob{
				Class: "Import", JID: "my-id.1", ArgsJSON: "[ {\"id\": 12345678901234567890},\n 1.0 ]",
				Retry: job.RetryRule{Kind: job.RetryLimit, Limit: 0}, RetryFor: time.Hour, RetryQueue: "low", Backtrace: AllLines,
				NoDead: true, Tags: []string{"a"}, Extra: []job.Edit{{Name: "bid", JSON: `"b1"`}},
			})
			require.NoError(w, err)
			stored := w.queue(DefaultQueue)
			require.Len(w, stored, 1)
			require.Contains(w, stored[0], `{"retry":0,"queue":"default","retry_queue":"low","retry_for":3600,"backtrace":true,`+
				`"dead":false,"tags":["a"],"bid":"b1","args":[{"id":12345678901234567890},1.0],"class":"Import","jid":"my-id.1",`)
			_, err = job.Parse(stored[0])
			require.NoError(w, err)
		},
		"a lost reply is an unknown outcome, and nothing is sent again": func(w *world) {
			w.proxy.Add(faultproxy.DropReply("LPUSH"))
			receipt, err := w.client.Push(w.Context(), RawJob{Class: "A"})
			require.ErrorIs(w, err, ErrUnknown)
			require.Equal(w, StatusUnknown, receipt.Status)
			stored := w.queue(DefaultQueue)
			require.Len(w, stored, 1)
			require.Contains(w, stored[0], receipt.JID)
			require.Equal(w, 1, w.proxy.Count("LPUSH"))
		},
		"a queue of another type is a definite failure": func(w *world) {
			w.do("SET", w.keys.Queue("odd"), "x")
			receipt, err := w.client.Push(w.Context(), RawJob{Class: "A", Queue: "odd"})
			require.ErrorContains(w, err, "WRONGTYPE")
			require.NotErrorIs(w, err, ErrUnknown)
			require.Equal(w, StatusNotPushed, receipt.Status)
		},
		"a context that is over sends nothing": func(w *world) {
			ctx, cancel := context.WithCancel(w.Context())
			cancel()
			receipt, err := w.client.Push(ctx, RawJob{Class: "A"})
			require.ErrorIs(w, err, context.Canceled)
			require.NotErrorIs(w, err, ErrUnknown)
			require.Equal(w, StatusNotPushed, receipt.Status)
			require.Zero(w, w.proxy.Count("LPUSH"))
		},
		"asks Redis for its time once": func(w *world) {
			for range 5 {
				_, err := w.client.Push(w.Context(), RawJob{Class: "A"})
				require.NoError(w, err)
			}
			require.Equal(w, 1, w.proxy.Count("TIME"))
			w.client.spaces[0].askAt.Store(1) // long ago: a minute has passed
			for range 5 {
				_, err := w.client.Push(w.Context(), RawJob{Class: "A"})
				require.NoError(w, err)
			}
			require.Equal(w, 2, w.proxy.Count("TIME"))
		},
		"stamps with this machine's time when Redis' is not to be had": func(w *world) {
			w.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "TIME", Do: faultproxy.Fail("NOPERM no TIME for you")})
			before := time.Now()
			_, err := w.client.Push(w.Context(), RawJob{Class: "A"})
			require.NoError(w, err)
			parsed, err := job.Parse(w.queue(DefaultQueue)[0])
			require.NoError(w, err)
			at, ok := parsed.EnqueuedAt()
			require.True(w, ok)
			require.WithinDuration(w, before, at, time.Minute)
		},
	})
}

func TestPush_stampsWithRedisTime(t *testing.T) {
	promises(t, Config{Unit: job.Millis}, map[string]func(w *world){
		"in milliseconds when so configured": func(w *world) {
			w.client.spaces[0].clock.Saw(time.Unix(2_000_000_000, 0), time.Now(), time.Now())
			w.client.spaces[0].askAt.Store(int64(time.Hour))
			_, err := w.client.Push(w.Context(), RawJob{Class: "A"})
			require.NoError(w, err)
			require.Regexp(w, `"created_at":2000000\d{6},"enqueued_at":2000000\d{6}\}$`, w.queue(DefaultQueue)[0])
		},
	})
}

func TestPush_refusesWhatNoWorkerCouldRun(t *testing.T) {
	promises(t, Config{PayloadLimit: 4000}, map[string]func(w *world){
		"before anything is sent": func(w *world) {
			for message, j := range map[string]RawJob{
				"the name of the class is empty":        {},
				"control character":                     {Class: "A\n"},
				"the name of the queue":                 {Class: "A", Queue: "a\x00"},
				"write argument 2":                      {Class: "A", Args: []any{1, func() {}}},
				"not a JSON array":                      {Class: "A", ArgsJSON: `{"a":1}`},
				"null":                                  {Class: "A\x00", ArgsJSON: `null`},
				"set one":                               {Class: "A", Args: []any{1}, ArgsJSON: "[1]"},
				"4000 are allowed":                      {Class: "A", Args: []any{strings.Repeat("x", 4000)}},
				"-1 retries":                            {Class: "A", Retry: job.RetryRule{Kind: job.RetryLimit, Limit: -1}},
				"whole number of seconds":               {Class: "A", RetryFor: time.Millisecond},
				"backtrace of -2":                       {Class: "A", Backtrace: -2},
				`jid "a/b" holds '/'`:                   {Class: "A", JID: "a/b"},
				`the field "at" is never stored`:        {Class: "A", Extra: []job.Edit{{Name: "at", JSON: "1"}}},
				`"bid" does not hold JSON`:              {Class: "A", Extra: []job.Edit{{Name: "bid", JSON: "{"}}},
				`"tags" is set twice`:                   {Class: "A", Tags: []string{"a"}, Extra: []job.Edit{{Name: "tags", JSON: "[]"}}},
				`"interrupted_count" is set twice`:      {Class: "A", Extra: []job.Edit{job.SetInt("interrupted_count", 1), job.SetInt("interrupted_count", 2)}},
				"nested deeper than 1000":               {Class: "A", Extra: []job.Edit{{Name: "deep", JSON: strings.Repeat("[", 1001) + strings.Repeat("]", 1001)}}},
				`must be a whole number of seconds, at`: {Class: "A", RetryFor: 1_000_000_001 * time.Second},
			} {
				receipt, err := w.client.Push(w.Context(), j)
				var invalid *InvalidError
				require.ErrorAs(w, err, &invalid, message)
				if message != "null" {
					require.ErrorContains(w, err, message)
				}
				require.Equal(w, StatusNotPushed, receipt.Status)
				if message != "4000 are allowed" { // which is the client's to say
					require.EqualError(w, j.Check(), invalid.Err.Error())
				}
			}
			for message, j := range map[string]RawJob{
				"meta: write JSON: at /k: a string is not valid UTF-8": {Class: "A", Meta: map[string]string{"k": "\xff"}},
				"args: a string is not valid UTF-8":                    {Class: "A", ArgsJSON: "[\"\xff\"]"},
			} {
				require.EqualError(w, j.Check(), message, "once, and in the words of the wire")
			}
			_, err := w.client.Push(w.Context(), RawJob{Class: "", Queue: "\x01", RetryFor: -1})
			require.ErrorContains(w, err, "class")
			require.ErrorContains(w, err, "queue")
			require.ErrorContains(w, err, "retry for")
			require.Zero(w, w.proxy.Count("LPUSH")+w.proxy.Count("SADD"))
		},
	})
}

func TestPush_aFullRedisSaysSo(t *testing.T) {
	t.Parallel()
	for name, open := range adapters.All {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, drivertest.Start(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction"), open, Config{})
			receipt, err := w.client.Push(t.Context(), RawJob{Class: "A"})
			require.ErrorIs(t, err, ErrFull)
			require.ErrorContains(t, err, "out of memory")
			require.NotErrorIs(t, err, ErrUnknown)
			require.Equal(t, StatusNotPushed, receipt.Status)
			receipts, err := w.client.PushMany(t.Context(), seqOf(RawJob{Class: "A"}, RawJob{Class: "A", Queue: "b"}))
			require.ErrorIs(t, err, ErrFull)
			require.Equal(t, []Status{StatusNotPushed, StatusNotPushed}, statuses(receipts))
			require.Empty(t, w.queue(DefaultQueue))
		})
	}
}

func TestPush_noServerIsCertainlyNotPushed(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t)
	server.Kill()
	d, err := goredisdriver.Open(server.URL())
	require.NoError(t, err)
	client, err := New(d, Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	receipt, err := client.Push(t.Context(), RawJob{Class: "A"})
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrUnknown)
	require.Equal(t, StatusNotPushed, receipt.Status)
}

func TestMiddleware(t *testing.T) {
	var seen []string
	broken := errors.New("broken")
	w := newWorld(t, drivertest.Redis(t), adapters.All["go-redis"], Config{})
	w.client.Use("first", func(_ context.Context, j *RawJob) error {
		switch j.Class {
		case "Refused":
			return Refuse("not today")
		case "Broken":
			return broken
		}
		j.Tags = append(j.Tags, "first")
		return nil
	})
	w.client.Use("second", func(_ context.Context, j *RawJob) error {
		seen = append(seen, j.Class+" "+j.JID+" "+strings.Join(j.Tags, ","))
		j.Queue, j.Args = "", []any{"changed"}
		return nil
	})
	shared := make([]string, 1, 8)
	shared[0] = "mine"
	receipts, err := w.client.PushMany(t.Context(), seqOf(
		RawJob{Class: "A", JID: "1", Tags: shared}, RawJob{Class: "Refused", JID: "2", Queue: "mail"}, RawJob{Class: "B", JID: "3", Queue: "x", Tags: shared}))
	require.NoError(t, err)
	require.Equal(t, []Receipt{
		{JID: "1", Queue: DefaultQueue, Status: StatusQueued},
		{JID: "2", Queue: "mail", Status: StatusRefused, Reason: "not today"},
		{JID: "3", Queue: DefaultQueue, Status: StatusQueued},
	}, receipts, "it runs per job, a refusal is no error, and an emptied queue is the default one")
	require.Equal(t, []string{"A 1 mine,first", "B 3 mine,first"}, seen)
	require.Empty(t, shared[:2][1], "what middleware appends is not written into the caller's array")
	for _, payload := range w.queue(DefaultQueue) {
		require.Contains(t, payload, `"args":["changed"]`)
	}
	_, err = w.client.Push(t.Context(), RawJob{Class: "Broken"})
	require.ErrorIs(t, err, broken)
	receipt, err := w.client.Push(t.Context(), RawJob{Class: "Refused"})
	require.NoError(t, err)
	require.Equal(t, StatusRefused, receipt.Status)
	require.Len(t, w.queue(DefaultQueue), 2)
}

func TestNewNamesEveryMistake(t *testing.T) {
	t.Parallel()
	_, err := New(nil, Config{PayloadLimit: job.MaxPayloadLimit + 1, Unit: 7})
	require.ErrorContains(t, err, "no client")
	require.ErrorContains(t, err, "payload limit "+strconv.Itoa(job.MaxPayloadLimit+1))
	require.ErrorContains(t, err, "time unit 7")
}

// TestWhatIsPushedIsReadBack holds for any job that draft accepts.
func TestWhatIsPushedIsReadBack(t *testing.T) {
	t.Parallel()
	name := rapid.StringN(1, 20, 200).Filter(func(s string) bool { return job.CheckClass(s) == nil })
	rapid.Check(t, func(t *rapid.T) {
		j := RawJob{
			Class: name.Draw(t, "class"), Queue: name.Draw(t, "queue"),
			Args:       []any{rapid.String().Draw(t, "text"), rapid.Int64().Draw(t, "int"), rapid.Float64().Draw(t, "float")},
			Retry:      job.RetryRule{Kind: job.RetryKind(rapid.IntRange(0, 2).Draw(t, "kind"))},
			RetryFor:   time.Duration(rapid.IntRange(0, 1_000_000).Draw(t, "retry for")) * time.Second,
			RetryQueue: rapid.SampledFrom([]string{"", "low"}).Draw(t, "retry queue"),
			Backtrace:  rapid.IntRange(-1, 50).Draw(t, "backtrace"),
			NoDead:     rapid.Bool().Draw(t, "no dead"),
			Tags:       rapid.SliceOfN(name, 0, 3).Draw(t, "tags"),
		}
		if j.Retry.Kind == job.RetryLimit {
			j.Retry.Limit = rapid.IntRange(0, 100).Draw(t, "limit")
		}
		filled, w := j, writer{}
		filled.setDefaults(&w)
		var d draft
		require.NoError(t, filled.draft(&w, time.Now(), &d))
		d.CreatedAt = time.Unix(1_700_000_000, 0)
		parsed, err := job.Parse(d.encode(&w))
		require.NoError(t, err)

		require.Equal(t, []string{j.Class, j.Queue, j.RetryQueue, filled.JID},
			[]string{parsed.Class(), parsed.Queue(), parsed.RetryQueue(), parsed.JID()})
		require.Equal(t, j.Retry, parsed.RetryRule())
		require.Equal(t, !j.NoDead, parsed.KeepDead())
		retryFor, ok := parsed.RetryFor()
		require.Equal(t, j.RetryFor > 0, ok)
		require.Equal(t, j.RetryFor, retryFor)
		lines, all := parsed.Backtrace()
		require.Equal(t, j.Backtrace == AllLines, all)
		require.Equal(t, max(j.Backtrace, 0), lines)
		var args []json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(parsed.ArgsJSON()), &args))
		var text string
		require.NoError(t, json.Unmarshal(args[0], &text))
		require.Equal(t, j.Args[0], text)
		var number float64
		require.NoError(t, json.Unmarshal(args[2], &number))
		require.InDelta(t, j.Args[2], number, 0)
	})
}

func TestPush_isNotEarlyForAnEstimateFromBeforeRedisClockWasSetBack(t *testing.T) {
	promises(t, Config{}, map[string]func(w *world){
		"it asks again": func(w *world) {
			w.client.spaces[0].clock.Saw(time.Now().Add(time.Hour), time.Now(), time.Now())
			w.client.spaces[0].askAt.Store(int64(clockFor - 10*time.Second)) // answered ten seconds ago
			receipt, err := w.client.Push(w.Context(), RawJob{Class: "A", At: time.Now().Add(30 * time.Minute)})
			require.NoError(w, err)
			require.Equal(w, StatusScheduled, receipt.Status)
			require.Empty(w, w.queue(DefaultQueue))
		},
	})
}
