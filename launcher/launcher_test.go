package launcher_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

func TestNew(t *testing.T) {
	t.Parallel()
	t.Run("names_everything_that_is_wrong_at_once", func(t *testing.T) {
		t.Parallel()
		_, err := launcher.New(launcher.Config{
			Concurrency: -1, Beat: time.Second, TTL: 2 * time.Second, PayloadLimit: 3 << 20, Queues: []fetch.Queue{{Name: ""}},
		})
		require.Error(t, err)
		for _, part := range []string{"no client", "concurrency", "ttl", "payload limit", "queue"} {
			require.ErrorContains(t, err, part)
		}
	})
	t.Run("opens_nothing", func(t *testing.T) {
		t.Parallel()
		client, err := openers["go-redis"]("redis://127.0.0.1:1")
		require.NoError(t, err)
		_, err = launcher.New(launcher.Config{Client: client})
		require.NoError(t, err)
		require.NoError(t, client.Close())
	})
}

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("runs_each_job_once_and_counts_it", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, r *rig) {
			var mu sync.Mutex
			ran := make(map[string]int)
			l := r.build(r.config())
			l.Handle("Count", func(ctx context.Context, j *job.Job) error {
				mu.Lock()
				defer mu.Unlock()
				ran[j.ArgsJSON()]++
				return nil
			}, launcher.Class{})
			for n := range 200 {
				r.push("Count", fmt.Sprintf("[%d]", n))
			}
			w := r.start(l)
			r.eventually("200 runs", func() bool { return r.counter(r.keys.Processed()) == "200" })
			require.Len(t, ran, 200)
			for args, times := range ran {
				require.Equal(t, 1, times, args)
			}
			require.Empty(t, r.counter(r.keys.Failed()))
			w.Stop()
			w.wait(t)
			require.Empty(t, r.list(r.keys.Working("default", l.Identity())))
			require.Equal(t, int64(0), r.do("EXISTS", r.keys.Process(l.Identity())), "gone from Sidekiq's pages")
		})
	})

	t.Run("every_way_to_fail_is_a_failure_and_frees_its_processor", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, r *rig) {
			cfg := r.config()
			cfg.Concurrency = 1
			l := r.build(cfg)
			l.Handle("Error", func(context.Context, *job.Job) error { return errors.New("boom") }, launcher.Class{})
			l.Handle("Panic", func(context.Context, *job.Job) error { panic("boom") }, launcher.Class{})
			l.Handle("NilPanic", func(context.Context, *job.Job) error { panic(nil) }, launcher.Class{})
			l.Handle("Goexit", func(context.Context, *job.Job) error { runtime.Goexit(); return nil }, launcher.Class{})
			l.Handle("Slow", func(ctx context.Context, _ *job.Job) error { <-ctx.Done(); return context.Cause(ctx) }, launcher.Class{Timeout: 20 * time.Millisecond})
			classes := []string{"Error", "Panic", "NilPanic", "Goexit", "Slow", "Unknown"}
			for range 5 {
				for _, class := range classes {
					r.push(class, "[]")
				}
			}
			r.start(l)
			r.eventually("30 failures", func() bool { return r.counter(r.keys.Failed()) == "30" })
			require.Equal(t, "30", r.counter(r.keys.Processed()))
			failed := r.set(r.keys.Retry())
			require.Len(t, failed, 30)
			for _, entry := range failed {
				parsed, err := job.Parse(entry)
				require.NoError(t, err)
				count, ok := parsed.RetryCount()
				require.True(t, ok)
				require.Zero(t, count)
			}
		})
	})

	t.Run("what_cannot_be_read_dies_with_its_reason_and_its_text_and_stops_nothing", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, r *rig) {
			l := r.build(r.config())
			l.Handle(launcher.AnyClass, func(context.Context, *job.Job) error { return nil }, launcher.Class{})
			bad := []string{"{", "", "\xff", "[]", "null", `"x"`, `{"class":"A","args":{},"jid":"1"}`, `{"class":"A","args":null,"jid":"2"}`,
				`{"class":1,"args":[],"jid":"3"}`, `{"class":"A","args":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `,"jid":"4"}`, strings.Repeat("x", 5<<20)}
			for _, entry := range bad {
				r.do("LPUSH", r.keys.Queue("default"), entry)
				r.push("Good", "[]")
			}
			r.start(l)
			r.eventually("the good ones", func() bool { return r.counter(r.keys.Processed()) == fmt.Sprint(2*len(bad)) })
			r.eventually("the bad ones", func() bool { return len(r.set(r.keys.Dead())) == len(bad) })
			var dead []string
			for _, entry := range r.set(r.keys.Dead()) {
				parsed, err := job.Parse(entry)
				require.NoError(t, err)
				raw, ok := parsed.Kept()
				require.True(t, ok)
				dead = append(dead, raw)
			}
			require.ElementsMatch(t, bad, dead)
			require.Equal(t, fmt.Sprint(len(bad)), r.counter(r.keys.Failed()))
			// And one that arrives while all processors are idle.
			huge := strings.Repeat("y", 5<<20)
			r.do("LPUSH", r.keys.Queue("default"), huge)
			r.eventually("the late one", func() bool { return len(r.set(r.keys.Dead())) == len(bad)+1 })
		})
	})

	t.Run("middleware_wraps_in_order_and_its_panic_is_a_failure", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, r *rig) {
			l := r.build(r.config())
			trace := make(chan string, 10)
			around := func(name string) launcher.Middleware {
				return func(next launcher.Handler) launcher.Handler {
					return func(ctx context.Context, j *job.Job) error {
						trace <- name + " before"
						defer func() { trace <- name + " after" }()
						return next(ctx, j)
					}
				}
			}
			l.Use("outer", around("outer"))
			l.Use("inner", around("inner"))
			failed := make(chan error, 10)
			l.OnError(func(context.Context, *job.Job, error) { panic("an error handler of no use") })
			l.OnError(func(_ context.Context, _ *job.Job, err error) { failed <- err })
			l.Handle("Fine", func(context.Context, *job.Job) error { trace <- "run"; return nil }, launcher.Class{})
			l.Handle("Bad", func(context.Context, *job.Job) error { panic("boom") }, launcher.Class{})
			r.push("Fine", "[]")
			r.start(l)
			for _, want := range []string{"outer before", "inner before", "run", "inner after", "outer after"} {
				require.Equal(t, want, receive(t, want, trace))
			}
			r.push("Bad", "[]")
			require.ErrorContains(t, receive(t, "the error", failed), "boom")
			r.eventually("the failure to be stored", func() bool { return len(r.set(r.keys.Retry())) == 1 })
			require.Regexp(t, `"panic":"an error handler of no use","jid":"[0-9a-f]{24}","class":"Bad","stack":"[^"]+launcher_test.go[^"]+","time":"[^"]+","message":"error handler panicked"`,
				r.log.String())
		})
	})

	t.Run("a_handler_knows_which_run_it_is", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, r *rig) {
			l := r.build(r.config())
			infos := make(chan launcher.RunInfo, 1)
			l.Handle("Ask", func(ctx context.Context, _ *job.Job) error {
				info, ok := launcher.Info(ctx)
				if !ok {
					return errors.New("no info")
				}
				infos <- info
				return nil
			}, launcher.Class{Timeout: time.Minute})
			r.push("Ask", "[]", job.SetInt("retry_count", 2))
			r.start(l)
			info := receive(t, "the run", infos)
			require.Equal(t, "Ask", info.Class)
			require.Equal(t, "default", info.Queue)
			require.Equal(t, 4, info.Attempt)
			require.Len(t, info.JID, 24)
			require.Equal(t, l.Identity(), info.Identity)
		})
	})

	t.Run("a_stop_works_before_redis_is_there", func(t *testing.T) {
		t.Parallel()
		client, err := openers["go-redis"]("redis://127.0.0.1:1")
		require.NoError(t, err)
		defer func() { _ = client.Close() }()
		l, err := launcher.New(launcher.Config{Client: client})
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- l.Run(context.Background()) }()
		l.Stop()
		require.NoError(t, receive(t, "the end", done))
	})

	t.Run("ends_when_its_context_does_also_before_redis_is_there", func(t *testing.T) {
		t.Parallel()
		client, err := openers["go-redis"]("redis://127.0.0.1:1")
		require.NoError(t, err)
		defer func() { _ = client.Close() }()
		l, err := launcher.New(launcher.Config{Client: client})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.NoError(t, l.Run(ctx))
	})
}

func TestStop(t *testing.T) {
	t.Parallel()

	t.Run("lets_running_jobs_finish_and_takes_no_more", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, r *rig) {
			l := r.build(r.config())
			started, release := make(chan bool, 8), make(chan bool)
			l.Handle("Long", func(context.Context, *job.Job) error { started <- true; <-release; return nil }, launcher.Class{})
			for range 6 {
				r.push("Long", "[]")
			}
			w := r.start(l)
			for range 4 {
				receive(t, "a start", started)
			}
			w.Stop()
			close(release)
			w.wait(t)
			require.Equal(t, "4", r.counter(r.keys.Processed()))
			require.Len(t, r.list(r.keys.Queue("default")), 2)
		})
	})

	t.Run("requeues_byte_for_byte_what_does_not_finish_in_time", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, r *rig) {
			var pushed []string
			for n := range 6 {
				pushed = append(pushed, r.push("Long", fmt.Sprintf(`[%d, 1.0, 9007199254740993]`, n), job.Edit{Name: "x_future", JSON: `{"a":[1]}`}))
			}
			for round := range 5 {
				cfg := r.config()
				cfg.ShutdownTimeout = 100 * time.Millisecond
				l := r.build(cfg)
				started := make(chan bool, 8)
				causes := make(chan error, 8)
				l.Handle("Long", func(ctx context.Context, _ *job.Job) error {
					started <- true
					<-ctx.Done()
					causes <- context.Cause(ctx)
					if round%2 == 0 {
						return ctx.Err() // an error that is no outcome
					}
					<-t.Context().Done() // ignores its context: it is left behind
					return nil
				}, launcher.Class{})
				w := r.start(l)
				for range 4 {
					receive(t, "a start", started)
				}
				w.Stop()
				w.wait(t)
				require.ErrorIs(t, receive(t, "the cause", causes), launcher.ErrShutdown)
				back := r.list(r.keys.Queue("default"))
				require.Len(t, back, 6)
				for i, payload := range pushed {
					require.Equal(t, payload, back[len(back)-1-i])
				}
				require.Empty(t, r.counter(r.keys.Processed()), "nothing is counted")
				require.Empty(t, r.set(r.keys.Retry()))
			}
		})
	})

	t.Run("a_second_stop_ends_the_wait_at_once", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, r *rig) {
			cfg := r.config()
			cfg.ShutdownTimeout = time.Hour
			l := r.build(cfg)
			started := make(chan bool, 8)
			l.Handle("Long", func(ctx context.Context, _ *job.Job) error { started <- true; <-ctx.Done(); return ctx.Err() }, launcher.Class{})
			pushed := r.push("Long", "[]")
			w := r.start(l)
			receive(t, "the start", started)
			w.Stop()
			w.Stop()
			w.wait(t)
			require.Equal(t, []string{pushed}, r.list(r.keys.Queue("default")))
		})
	})

	t.Run("a_second_order_from_redis_leaves_running_jobs_their_time", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, r *rig) {
			cfg := r.config()
			cfg.ShutdownTimeout = time.Hour
			l := r.build(cfg)
			started, release := make(chan bool, 8), make(chan bool)
			ended := make(chan error, 8)
			l.Handle("Long", func(ctx context.Context, _ *job.Job) error {
				started <- true
				select {
				case <-release:
				case <-ctx.Done():
				}
				ended <- ctx.Err()
				return ctx.Err()
			}, launcher.Class{})
			r.push("Long", "[]")
			w := r.start(l)
			receive(t, "the start", started)
			r.do("LPUSH", r.keys.Signals(l.Identity()), "TERM", "INT", "TERM", "TTIN")
			r.eventually("the signals", func() bool {
				return r.do("EXISTS", r.keys.Signals(l.Identity())) == int64(0) && strings.Count(r.log.String(), `"remote control"`) == 4
			})
			r.do("LPUSH", r.keys.Signals(l.Identity()), "TERM") // of a later heartbeat
			r.eventually("the late signal", func() bool { return strings.Count(r.log.String(), `"remote control"`) == 5 })
			close(release)
			require.NoError(t, receive(t, "the end", ended), "it was cut")
			w.wait(t)
			require.Equal(t, "1", r.counter(r.keys.Processed()))
		})
	})

	t.Run("quiet_takes_no_more_and_lives_on", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, r *rig) {
			l := r.build(r.config())
			started, release := make(chan bool, 8), make(chan bool)
			l.Handle("Long", func(context.Context, *job.Job) error { started <- true; <-release; return nil }, launcher.Class{})
			r.push("Long", "[]")
			w := r.start(l)
			receive(t, "the start", started)
			// Through Ruby's remote control.
			r.do("LPUSH", r.keys.Signals(l.Identity()), "TSTP")
			r.eventually("the signal", func() bool { return strings.Contains(r.log.String(), `"TSTP"`) })
			close(release)
			r.eventually("the running one to end", func() bool { return r.counter(r.keys.Processed()) == "1" })
			late := r.push("Long", "[]")
			beats := func() string { return fmt.Sprint(r.do("ZSCORE", r.keys.Alive(), l.Identity())) }
			before := beats()
			r.eventually("another beat", func() bool { return beats() != before })
			require.Equal(t, []string{late}, r.list(r.keys.Queue("default")))
			r.do("LPUSH", r.keys.Signals(l.Identity()), "TERM")
			w.wait(t)
		})
	})
}

func TestAnnounce(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		cfg := r.config()
		cfg.Tag, cfg.Name = "shop", "host:with:colons"
		cfg.Queues = []fetch.Queue{{Name: "default", Weight: 3}, {Name: "low", Weight: 1}}
		l := r.build(cfg)
		release := make(chan bool)
		l.Handle("Long", func(context.Context, *job.Job) error { <-release; return nil }, launcher.Class{})
		defer close(release)
		// The first announcement comes with the first duties, so the job must be there before.
		payload := r.push("Long", `["x"]`)
		r.start(l)
		r.eventually("the process' entry", func() bool { return l.Identity() != "" && r.do("HGET", r.keys.Process(l.Identity()), "info") != nil })
		require.Contains(t, texts(r.do("SMEMBERS", r.keys.Processes()).([]any)), l.Identity())
		text, _ := r.do("HGET", r.keys.Process(l.Identity()), "info").(string)
		var info map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &info))
		require.Equal(t, "host-with-colons", info["hostname"])
		require.Equal(t, l.Identity(), info["identity"])
		require.Equal(t, "shop", info["tag"])
		require.Equal(t, []any{}, info["labels"])
		require.Equal(t, []any{"default", "low"}, info["queues"])
		require.Regexp(t, `"started_at":\d+\.\d+`, text, "a float to Ruby")
		require.Equal(t, "false", r.do("HGET", r.keys.Process(l.Identity()), "quiet"))
		require.Equal(t, "4", r.do("HGET", r.keys.Process(l.Identity()), "concurrency"))
		r.eventually("the running job", func() bool { return r.do("HLEN", r.keys.Work(l.Identity())) == int64(1) })
		for _, key := range []string{r.keys.Work(l.Identity()), r.keys.Workers(l.Identity())} {
			values := texts(r.do("HVALS", key).([]any))
			require.Len(t, values, 1)
			var entry struct {
				Queue   string `json:"queue"`
				Payload string `json:"payload"`
				RunAt   int64  `json:"run_at"`
			}
			require.NoError(t, json.Unmarshal([]byte(values[0]), &entry))
			require.Equal(t, payload, entry.Payload, "JSON within JSON")
			require.Equal(t, "default", entry.Queue)
			require.InDelta(t, time.Now().Unix(), entry.RunAt, 20)
		}
	})
}

func TestReRegistration(t *testing.T) {
	t.Parallel()

	t.Run("one_declared_dead_cancels_its_handlers_and_works_on_under_a_new_name", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, r *rig) {
			cfg := r.config()
			cfg.Concurrency = 1 // no idle wait of its old session brings it the job that it has lost
			l := r.build(cfg)
			started := make(chan bool, 8)
			causes := make(chan error, 8)
			var runs atomic.Int32
			l.Handle("Job", func(ctx context.Context, _ *job.Job) error {
				if runs.Add(1) > 1 {
					return nil
				}
				started <- true
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return nil
			}, launcher.Class{})
			payload := r.push("Job", "[]")
			r.start(l)
			receive(t, "the start", started)
			old := l.Identity()
			r.declareDead(old, payload)
			require.ErrorIs(t, receive(t, "the cause", causes), fetch.ErrOwnershipLost)
			r.eventually("a new name", func() bool { return l.Identity() != old })
			r.eventually("the second run", func() bool { return r.counter(r.keys.Processed()) == "1" })
			require.Equal(t, int32(2), runs.Load())
			require.Empty(t, r.set(r.keys.Retry()))
			r.eventually("the verdict on the first run", func() bool { return strings.Contains(r.log.String(), "ownership lost") })
			require.Equal(t, "1", r.counter(r.keys.Processed()), "counted once, however often it ran")
		})
	})

	t.Run("one_forgotten_by_redis_lets_its_handlers_finish_and_works_on", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, r *rig) {
			l := r.build(r.config())
			started, release := make(chan bool, 8), make(chan bool)
			ended := make(chan error, 8)
			l.Handle("Job", func(ctx context.Context, _ *job.Job) error {
				started <- true
				<-release
				ended <- ctx.Err()
				return nil
			}, launcher.Class{})
			r.push("Job", "[]")
			w := r.start(l)
			receive(t, "the start", started)
			old := l.Identity()
			r.do("DEL", r.keys.Record(old), r.keys.Alive(), r.keys.Tombstones(), r.keys.Working("default", old))
			r.eventually("a new name", func() bool { return l.Identity() != old })
			close(release)
			require.NoError(t, receive(t, "the end", ended), "its context went on")
			r.push("Job", "[]")
			receive(t, "the next start", started)
			r.eventually("the next end", func() bool { return r.counter(r.keys.Processed()) == "1" })
			require.Nil(t, r.do("ZSCORE", r.keys.Alive(), old), "no entry of the old name")
			require.Equal(t, `["default"]`, r.do("HGET", r.keys.Record(old), "queues"), "its lists can be found")
			w.Stop()
			w.wait(t)
			require.NotNil(t, r.do("ZSCORE", r.keys.Tombstones(), old), "and are looked through from now on")
		})
	})
}
