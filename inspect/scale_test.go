package inspect

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/lua"
)

// push puts jobs into a list, the first one to run first.
func (w *world) push(key string, jobs ...string) {
	w.Helper()
	for chunk := range slices.Chunk(jobs, 1000) {
		w.do(append([]string{"LPUSH", key}, chunk...)...)
	}
}

func TestActsDeepInALongQueue(t *testing.T) {
	promises(t, map[string]func(w *world){
		"take every selected job and no other, while workers take from it": func(w *world) {
			const jobs = 40_000
			var all []string
			want := map[string]bool{}
			for n := range jobs {
				class := "B"
				if n%500 == 3 || n > jobs-20 || n > 30_000 && n <= 30_100 { // the youngest, and many in a row, too
					class = "A"
				}
				all = append(all, fmt.Sprintf(`{"class":%q,"jid":"%d","args":[],"queue":"q"}`, class, n))
				want[all[n]] = class == "B"
			}
			w.push(w.keys.Queue("q"), all...)
			w.do("LSET", w.keys.Queue("q"), strconv.Itoa(-35_001), `{"class":"A","jid":"refused"`)
			delete(want, all[35_000])
			taken := 0
			worker := &betweenCalls{Client: w.driver, after: func(call driver.Call) {
				if call.Script != nil && call.Script.Name() == "act" && taken < 900 {
					for _, text := range w.do("RPOP", w.keys.Queue("q"), "3").([]any) {
						delete(want, text.(string))
						taken++
					}
				}
			}}
			selected := 0
			for _, stays := range want {
				if !stays {
					selected++
				}
			}
			task := Task{Home: Waiting("q"), Action: Delete, Selection: Selection{Filter: Filter{Class: "A"}}}
			counts, err := w.inspectorOf(worker).Act(w.Context(), task, nil)
			require.NoError(w, err)
			require.Positive(w, taken)
			left := w.list(w.keys.Queue("q"))
			found := map[string]bool{}
			for _, text := range left {
				require.False(w, found[text], "%s is there twice", text)
				found[text] = true
			}
			for text, stays := range want {
				require.Equal(w, stays, found[text], text)
			}
			require.Len(w, left, jobs-taken-counts.Moved)
			require.LessOrEqual(w, counts.Moved, selected)
		},
		"move jobs in their order": func(w *world) {
			const jobs = 20_000
			var all, want []string
			for n := range jobs {
				all = append(all, inQueueOf([]string{"A", "B"}[n%2], "q", n))
				if n%2 == 0 {
					want = append(want, inQueueOf("A", "r", n))
				}
			}
			w.push(w.keys.Queue("q"), all...)
			counts, err := w.inspector.Act(w.Context(), Task{Home: Waiting("q"), Action: Move, Selection: Selection{Filter: Filter{Class: "A"}}, To: "r"}, nil)
			require.NoError(w, err)
			require.Equal(w, ActCounts{Moved: jobs / 2, Locked: map[string]int{"Sidekiq Enterprise": jobs / 2}}, counts)
			moved := w.oldestFirst(w.keys.Queue("r"))
			require.Equal(w, want[:7000], moved[:7000])
			require.ElementsMatch(w, want, moved)
		},
	})
}

// A vast is a Redis of its own with very many jobs.
type vast struct {
	*testing.T
	jobs      int
	server    *drivertest.Server
	inspector *Inspector
	keys      lua.Keys
	waited    time.Duration // for a processor, until the last measurement ended
	late      []string      // what was above its bound in this round
}

const fillScript = `
local kind, first, count, class = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
for n = first, first + count - 1 do
  local job = string.format('{"class":"%s","args":[%d,"some text that is not short"],"retry":true,"queue":"%s","jid":"%024x","created_at":1700000000.25,"enqueued_at":1700000000.25,"retry_count":1,"failed_at":1700000000.25,"error_class":"Net::ReadTimeout","error_message":"no answer from host %d"}',
    n % 1000 == 7 and 'Rare' or class, n, ARGV[5], n, n % 50)
  if kind == 'list' then
    redis.call('LPUSH', KEYS[1], job)
  else
    redis.call('ZADD', KEYS[1], 1700000000 + math.floor(n / 100), job)
  end
end`

func (v *vast) fill(kind, key string, count int, queue string) {
	v.Helper()
	for first := 0; count > 0; first, count = first+10_000, count-10_000 {
		_, err := v.server.Do(v.Context(), "EVAL", fillScript, "1", key, kind, strconv.Itoa(first), strconv.Itoa(min(count, 10_000)), "Mail", queue)
		require.NoError(v, err)
	}
}

// slow notes if a command took Redis ten milliseconds. The log has real time, and other programs may have had
// the processor, so what the entries have above ten milliseconds is compared with how long Redis waited for
// one. Nothing tells how long the machine itself stood still.
func (v *vast) slow(what string) {
	v.Helper()
	log, err := v.server.Do(v.Context(), "SLOWLOG", "GET", "128")
	require.NoError(v, err)
	above, slowest := time.Duration(0), time.Duration(0)
	for _, entry := range log.([]any) {
		micros := entry.([]any)[2].(int64)
		took := time.Duration(micros) * time.Microsecond
		above, slowest = above+took-10*time.Millisecond, max(slowest, took)
	}
	waited := v.waitedForProcessor()
	if slowest > 0 {
		v.Logf("%s: %d slow calls, up to %v, %v above the bound; Redis waited %v for a processor", what, len(log.([]any)), slowest, above, waited-v.waited)
	}
	if above > waited-v.waited {
		v.late = append(v.late, what)
	}
	v.waited = waited
	_, err = v.server.Do(v.Context(), "SLOWLOG", "RESET")
	require.NoError(v, err)
}

// waitedForProcessor is how long Redis' main thread has been runnable without running, which Linux tells; 0
// elsewhere.
func (v *vast) waitedForProcessor() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", v.server.PID()))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	require.Len(v, fields, 3)
	waited, err := strconv.ParseInt(fields[1], 10, 64)
	require.NoError(v, err)
	return time.Duration(waited)
}

// page measures a call that a page of a dashboard makes.
func (v *vast) page(what string, call func(ctx context.Context) error) {
	v.Helper()
	best := time.Hour
	for range 3 { // another program may have the processor
		started := time.Now()
		require.NoError(v, call(v.Context()), what)
		best = min(best, time.Since(started))
	}
	v.Logf("%-45s %v", what, best.Round(100*time.Microsecond))
	v.slow(what)
	if best >= 100*time.Millisecond {
		v.late = append(v.late, what)
	}
}

// act measures an act.
func (v *vast) act(task Task) ActCounts {
	v.Helper()
	started := time.Now()
	counts, err := v.inspector.Act(v.Context(), task, nil)
	require.NoError(v, err)
	what := fmt.Sprintf("%s %d in %s", task.Action, counts.Moved, task.Home)
	v.Logf("%-45s %v", what, time.Since(started).Round(time.Millisecond))
	v.slow(what)
	return counts
}

func (v *vast) first(home Home, skip int) (entries []Entry) {
	v.Helper()
	for entry, err := range v.inspector.Entries(v.Context(), home, skip) {
		require.NoError(v, err)
		if entries = append(entries, entry); len(entries) == 25 {
			break
		}
	}
	return entries
}

// No call that a page makes takes a tenth of a second, and no act takes Redis ten milliseconds at a time,
// however many jobs there are. BELAY_INSPECT_JOBS=1000000 is the full size; see docs/operations.md.
//
// A call that is above a bound is measured again with the same jobs: a call that reads too much is above it
// each time, one that the machine held up is not.
func TestManyJobs(t *testing.T) {
	jobs := 30_000
	if text := os.Getenv("BELAY_INSPECT_JOBS"); text != "" {
		var err error
		jobs, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	server := drivertest.Start(t)
	client := adapters.All["rueidis"](t, server.URL())
	v := &vast{T: t, jobs: jobs, server: server, inspector: inspectorOf(t, client, ""), keys: lua.NewKeys("")}
	late := v.round()
	for range 2 {
		if len(late) == 0 {
			return
		}
		again := v.round()
		late = slices.DeleteFunc(late, func(what string) bool { return !slices.Contains(again, what) })
	}
	require.Empty(t, late)
}

// round fills Redis anew and makes every call of a page and every act. It returns what was above its bound.
func (v *vast) round() (late []string) {
	v.Helper()
	t, jobs := v.T, v.jobs
	v.late = nil
	ask := func(words ...string) {
		_, err := v.server.Do(t.Context(), words...)
		require.NoError(t, err)
	}
	ask("FLUSHALL")
	v.fill("list", v.keys.Queue("big"), jobs, "big")
	v.fill("set", v.keys.Dead(), jobs, "big")
	v.fill("set", v.keys.Retry(), jobs/5, "retried")
	v.fill("set", v.keys.Schedule(), jobs/5, "big")
	ask("SADD", v.keys.Queues(), "big", "retried", "other")
	for n := range 200 {
		queue := fmt.Sprintf("queue%03d", n)
		ask("SADD", v.keys.Queues(), queue)
		v.fill("list", v.keys.Queue(queue), 3, queue)
	}
	for n := range 10 {
		_, err := v.keys.Register(fmt.Sprintf("host:%d:aa", n), lua.Record{Queues: []string{"big"}, Beat: time.Second, TTL: time.Hour}).Do(t.Context(), v.inspector.driver)
		require.NoError(t, err)
	}
	ask("SLOWLOG", "RESET")
	ask("CONFIG", "SET", "slowlog-log-slower-than", "10000")
	v.waited = v.waitedForProcessor()

	v.page("status, 203 queues", func(ctx context.Context) error { _, err := v.inspector.Status(ctx); return err })
	v.page("history of five years", func(ctx context.Context) error { _, _, err := v.inspector.History(ctx, MaxDays); return err })
	for _, home := range []Home{Dead(), Retries(), Scheduled(), Waiting("big")} {
		for _, skip := range []int{0, jobs / 10, jobs / 2} {
			v.page(fmt.Sprintf("25 of %s after %d", home, skip), func(context.Context) error { v.first(home, skip); return nil })
		}
	}
	middle := v.first(Waiting("big"), jobs/2)[0]
	v.page("one job by its ref, in the middle", func(ctx context.Context) error {
		_, ok, err := v.inspector.Get(ctx, Waiting("big"), middle.Ref())
		require.True(t, ok)
		return err
	})
	v.page("a search of 50 ms for nothing", func(ctx context.Context) error {
		_, err := v.inspector.Search(ctx, Query{Filter: Filter{Text: "nowhere"}, Time: 50 * time.Millisecond})
		return err
	})
	v.page("a search for the first 100", func(ctx context.Context) error {
		_, err := v.inspector.Search(ctx, Query{Filter: Filter{Class: "Mail"}})
		return err
	})
	v.page("the lock of a job", func(ctx context.Context) error {
		_, _, err := v.inspector.LockOf(ctx, dedup.Rule{Until: dedup.UntilExecuting}, "Mail", "big", "[1]")
		return err
	})
	started := time.Now()
	found, err := v.inspector.Find(t.Context(), "nowhere", nil)
	require.NoError(t, err)
	v.Logf("find of a job that is nowhere read %d entries in %v", found.Looked, time.Since(started).Round(time.Millisecond))
	v.slow("find")

	require.Equal(t, 1, v.act(Task{Home: Waiting("big"), Action: Delete, Selection: Selection{Refs: []string{middle.Ref()}}}).Moved)
	require.Equal(t, jobs/5, v.act(Task{Home: Retries(), Action: Retry, Selection: Selection{All: true}}).Moved)
	require.Equal(t, jobs/5, v.act(Task{Home: Scheduled(), Action: Reschedule, Selection: Selection{All: true}, At: time.Unix(2e9, 0)}).Moved)
	require.Equal(t, jobs/5, v.act(Task{Home: Scheduled(), Action: Kill, Selection: Selection{All: true}}).Moved)
	require.Positive(t, v.act(Task{Home: Waiting("big"), Action: Kill, Selection: Selection{Filter: Filter{Class: "Rare"}}}).Moved)
	require.Equal(t, jobs/5, v.act(Task{Home: Waiting("retried"), Action: Move, Selection: Selection{All: true}, To: "other"}).Moved)
	require.Positive(t, v.act(Task{Home: Dead(), Action: Delete, Selection: Selection{Filter: Filter{Text: "FROM HOST 49"}}}).Moved)
	require.Positive(t, v.act(Task{Home: Dead(), Action: Delete, Selection: Selection{All: true}}).Moved)
	require.Positive(t, v.act(Task{Home: Waiting("big"), Action: Delete, Selection: Selection{All: true}}).Moved)
	status, err := v.inspector.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{600 + int64(jobs/5), 0, 0, 0}, []int64{status.Enqueued, status.Scheduled, status.Retries, status.Dead})
	return v.late
}
