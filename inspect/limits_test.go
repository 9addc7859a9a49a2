package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/limit"
	"github.com/belayq/belay/lua"
)

// run lets a process hold jobs, each with a slot of the gate.
func (w *world) run(identity, gate string, payloads ...string) {
	w.Helper()
	_, err := w.keys.Register(identity, lua.Record{Queues: []string{"q"}, Beat: time.Second, TTL: time.Minute}).Do(w.Context(), w.driver)
	require.NoError(w, err)
	for _, payload := range payloads {
		w.do("LPUSH", w.keys.Working("q", identity), payload)
		w.do("HSET", w.keys.Slots(identity), hashOf(payload), gate)
		w.do("HINCRBY", w.keys.Gates(), gate+"\nr", "1")
	}
}

// admit puts a job into its queue with an admission.
func (w *world) admit(gate, payload string) {
	const queue = "q"
	w.Helper()
	w.do("LPUSH", w.keys.Queue(queue), payload)
	w.do("SADD", w.keys.Queues(), queue)
	w.do("HSET", w.keys.Admitted(), hashOf(payload), fmt.Sprintf("%d\n%s\n%s", time.Now().UnixMilli(), gate, queue))
	w.do("HINCRBY", w.keys.Gates(), gate+"\na", "1")
}

func (w *world) api() Limit {
	w.Helper()
	d, found, err := w.inspector.Limit(w.Context(), "api", nil)
	require.NoError(w, err)
	require.True(w, found)
	return d.Limit
}

func TestLimits(t *testing.T) {
	five := 5
	promises(t, map[string]func(w *world){
		"are listed with the jobs of all their gates": func(w *world) {
			w.do("HSET", w.keys.Limits(), "webhooks", "5 none 0 0 code 1700000000", "api", "- window 100 60000 operator 0", "bad", "x", hostile, "0 leaky 3 1000 code 0")
			w.run("h:1:aa", "webhooks:acme", sample("A", "1"), sample("A", "2"))
			w.admit("webhooks:acme", sample("A", "3"))
			w.wait("webhooks:acme", "q", sample("A", "4", `"enqueued_at":1700000000.5`), sample("A", "5"))
			w.wait("webhooks:"+hostile, hostile, sample("A", "6"))
			w.wait("gone:", "q", sample("A", "7"))
			w.do("SET", w.keys.WaitingList("odd:"), "x")
			w.do("ZADD", w.keys.Waiting(), "5", "odd:")
			limits, err := w.inspector.Limits(w.Context())
			require.NoError(w, err)
			require.Len(w, limits.Limits, 5)
			zero := 0
			require.Equal(w, Limit{Name: hostile, Concurrency: &zero, Rate: "leaky:3/1s", Source: lua.LimitOfCode}, limits.Limits[0])
			require.Equal(w, Limit{Name: "api", Rate: "100/1m", Source: lua.LimitOfOperator}, limits.Limits[1])
			require.Equal(w, Limit{Name: "gone", Waiting: 1, Gates: 1}, limits.Limits[2])
			webhooks := limits.Limits[4]
			require.Greater(w, webhooks.Oldest.Duration, time.Hour)
			webhooks.Oldest = Seconds{}
			require.Equal(w, Limit{
				Name: "webhooks", Concurrency: &five, Source: lua.LimitOfCode, SeenAt: time.Unix(1_700_000_000, 0).UTC(),
				Running: 2, Admitted: 1, Waiting: 3, Gates: 2,
			}, webhooks)
			require.Len(w, limits.Problems, 1)
			require.Contains(w, limits.Problems[0], "odd:")
			status := w.status()
			require.Equal(w, int64(4), status.Waiting)
			require.Equal(w, []int64{1, 3}, []int64{status.Queues[0].Size, status.Queues[0].Waiting})
		},
		"show who holds a slot, and the line at one gate": func(w *world) {
			w.do("HSET", w.keys.Limits(), "webhooks", "5 none 0 0 code 0")
			w.run("h:1:aa", "webhooks:acme", sample("A", "1"))
			w.run("h:2:bb", "webhooks:other", sample("A", "2"))
			w.run("h:2:bb", "api:", sample("A", "3"))
			w.do("LPUSH", w.keys.Working("q", "h:2:bb"), sample("A", "without"))
			w.do("HSET", w.keys.Work("h:1:aa"), "t", fmt.Sprintf(`{"queue":"q","run_at":1700000000,"payload":%q}`, sample("A", "1")))
			w.do("SET", w.keys.Stop("webhooks:acme"), "", "PX", "60000")
			acquired, err := w.keys.Acquire(lua.Gate{Name: "webhooks:other", Size: lua.Size{Concurrency: 5}}, "caller").Do(w.Context(), w.driver)
			require.NoError(w, err)
			require.True(w, acquired.Held)
			for n := range 40 {
				w.wait("webhooks:acme", "q", sample("A", "w"+strconv.Itoa(n)))
			}
			d, found, err := w.inspector.Limit(w.Context(), "webhooks", nil)
			require.NoError(w, err)
			require.True(w, found)
			require.Equal(w, []int64{3, 40}, []int64{d.Running, d.Waiting})
			require.Equal(w, []string{"webhooks:acme", "webhooks:other"}, []string{d.Gates[0].Name, d.Gates[1].Name})
			require.InDelta(w, 60, d.Gates[0].Stopped.Seconds(), 30)
			require.Equal(w, []Holder{
				{Gate: "webhooks:acme", JID: "1", Class: "A", Process: "h:1:aa", State: StateAlive, Since: time.Unix(1_700_000_000, 0).UTC()},
				{Gate: "webhooks:other", JID: "2", Class: "A", Process: "h:2:bb", State: StateAlive},
				{Gate: "webhooks:other", Lease: "caller"},
			}, d.Holders)
			require.Empty(w, d.Waiters)
			key := "acme"
			d, _, err = w.inspector.Limit(w.Context(), "webhooks", &key)
			require.NoError(w, err)
			require.Len(w, d.Gates, 1)
			require.Len(w, d.Holders, 1)
			require.Len(w, d.Waiters, maxLine)
			require.Equal(w, "w0", d.Waiters[0].ID)
			_, found, err = w.inspector.Limit(w.Context(), "nothing", nil)
			require.NoError(w, err)
			require.False(w, found)
		},
		"are shown with a job that runs or was admitted": func(w *world) {
			w.run("h:1:aa", "webhooks:acme", sample("A", "1"))
			w.admit("api:", sample("A", "2"))
			w.do("LPUSH", w.keys.Queue("q"), sample("A", "3"), sample("A", "4"))
			w.do("HSET", w.keys.Admitted(), hashOf(sample("A", "4")), "-1\napi:\nq")
			for jid, want := range map[string]string{"1": "webhooks:acme", "2": "api:", "3": "", "4": ""} {
				found, err := w.inspector.Find(w.Context(), jid, nil)
				require.NoError(w, err)
				require.Equal(w, want, found.Gate, jid)
			}
		},
		"are set by an operator until they are reset or removed": func(w *world) {
			code := lua.Size{Concurrency: 5, Rate: lua.RateWindow, N: 100, Per: time.Minute}
			register := func(act lua.LimitAct) {
				_, err := w.keys.ChangeLimits(act, []lua.LimitChange{{Name: "api", Size: code}}).Do(w.Context(), w.driver)
				require.NoError(w, err)
			}
			register(lua.LimitStarts)
			w.wait("api:1", "q", sample("A", "1"))
			w.do("ZADD", w.keys.Waiting(), "9999999999", "api:1", "9999999999", "apis:1")
			set := func(change LimitChange) Limit {
				l, err := w.inspector.SetLimit(w.Context(), "api", change)
				require.NoError(w, err)
				read := w.api()
				require.Equal(w, []any{l.Concurrency, l.Rate, lua.LimitOfOperator}, []any{read.Concurrency, read.Rate, read.Source})
				return l
			}
			l := set(LimitChange{Concurrency: "0"})
			require.Equal(w, []any{0, "100/1m"}, []any{*l.Concurrency, l.Rate})
			require.Equal(w, "0 window 100 60000", strings.Join(strings.Fields(w.do("HGET", w.keys.Limits(), "api").(string))[:4], " "))
			due, err := strconv.ParseFloat(w.do("ZSCORE", w.keys.Waiting(), "api:1").(string), 64)
			require.NoError(w, err)
			require.Less(w, due, 9e9, "the poller looks at it at once")
			require.Equal(w, "9999999999", w.do("ZSCORE", w.keys.Waiting(), "apis:1"))
			l = set(LimitChange{Concurrency: "none", Rate: "leaky:7/1s"})
			require.Equal(w, []any{(*int)(nil), "leaky:7/1s"}, []any{l.Concurrency, l.Rate})
			l = set(LimitChange{Rate: "none"})
			require.Equal(w, []any{(*int)(nil), ""}, []any{l.Concurrency, l.Rate}, "it is lifted")
			register(lua.LimitStarts)
			require.Equal(w, lua.LimitOfOperator, w.api().Source)
			found, err := w.inspector.ResetLimit(w.Context(), "api")
			require.NoError(w, err)
			require.True(w, found)
			register(lua.LimitSeen)
			require.Equal(w, []any{5, "100/1m", lua.LimitOfCode}, []any{*w.api().Concurrency, w.api().Rate, w.api().Source})
			found, err = w.inspector.RemoveLimit(w.Context(), "api")
			require.NoError(w, err)
			require.True(w, found)
			for _, act := range []func(*Inspector) (bool, error){
				func(i *Inspector) (bool, error) { return i.RemoveLimit(w.Context(), "api") },
				func(i *Inspector) (bool, error) { return i.ResetLimit(w.Context(), "api") },
			} {
				found, err := act(w.inspector)
				require.NoError(w, err)
				require.False(w, found)
			}
		},
		"are not set to what no limit can be": func(w *world) {
			for name, change := range map[string]LimitChange{
				"a": {}, "b": {Concurrency: "-1"}, "c": {Concurrency: "many"}, "d": {Rate: "100"}, "e": {Rate: "1001/1m"}, "f:": {Concurrency: "1"},
				hostile: {Concurrency: "1"}, "g": {Concurrency: "1000001"}, "h": {Rate: "1/1us"},
			} {
				_, err := w.inspector.SetLimit(w.Context(), name, change)
				require.ErrorIs(w, err, ErrLimitChange, name)
			}
			require.Equal(w, int64(0), w.do("EXISTS", w.keys.Limits()))
		},
		"are checked against the slots and admissions, and set to them": func(w *world) {
			w.run("h:1:aa", "webhooks:acme", sample("A", "1"), sample("A", "2"))
			w.admit("webhooks:acme", sample("A", "3"))
			w.wait("webhooks:acme", "q", sample("A", "4"))
			w.do("HSET", w.keys.Slots("h:9:dead"), "x", "api:")
			w.do("ZADD", w.keys.Tombstones(), "1", "h:9:dead")
			w.do("HSET", w.keys.Gates(), "api:\nr", "1")
			_, err := w.keys.Acquire(lua.Gate{Name: "leased:", Size: lua.Size{Concurrency: 5}}, "caller").Do(w.Context(), w.driver)
			require.NoError(w, err)
			check, err := w.inspector.CheckLimits(w.Context())
			require.NoError(w, err)
			require.Equal(w, LimitCheck{Looked: 3, Wrong: []GateCheck{}}, check)
			_, err = w.inspector.ResetGate(w.Context(), "leased:")
			require.NoError(w, err)
			require.Equal(w, "1", w.do("HGET", w.keys.Gates(), "leased:\nr"), "the caller keeps its slot")
			w.do("HINCRBY", w.keys.Gates(), "webhooks:acme\nr", "3")
			w.do("HDEL", w.keys.Gates(), "api:\nr")
			w.do("HSET", w.keys.Gates(), "none:\na", "4")
			w.do("ZADD", w.keys.Waiting(), "1", "empty:")
			w.do("ZREM", w.keys.Waiting(), "webhooks:acme")
			check, err = w.inspector.CheckLimits(w.Context())
			require.NoError(w, err)
			require.Equal(w, []GateCheck{
				{Gate: "api:", Slots: 1},
				{Gate: "empty:", Indexed: true},
				{Gate: "none:", Admitted: 4},
				{Gate: "webhooks:acme", Running: 5, Slots: 2, Admitted: 1, Admissions: 1, Waiting: 1},
			}, check.Wrong)
			for _, wrong := range check.Wrong {
				was, err := w.inspector.ResetGate(w.Context(), wrong.Gate)
				require.NoError(w, err)
				require.Equal(w, wrong, was)
			}
			check, err = w.inspector.CheckLimits(w.Context())
			require.NoError(w, err)
			require.Empty(w, check.Wrong)
			require.Equal(w, "2", w.do("HGET", w.keys.Gates(), "webhooks:acme\nr"))
			require.Equal(w, []string{"webhooks:acme"}, w.set(w.keys.Waiting()))
			require.Equal(w, int64(0), w.do("HEXISTS", w.keys.Gates(), "none:\na"))
		},
		// Its slots would be missing from the counts, and too many jobs would start.
		"are not set without a process that starts meanwhile": func(w *world) {
			w.run("h:1:aa", "g:", sample("A", "1"))
			i, started := w.inspector, false
			w.inspector = w.inspectorOf(&betweenCalls{Client: w.driver, after: func(call driver.Call) {
				if !started && len(call.Keys) > 0 && call.Keys[0] == w.keys.Tombstones() { // the living were read before
					started = true
					w.run("h:2:bb", "g:", sample("A", "2"))
				}
			}})
			defer func() { w.inspector = i }()
			was, err := w.inspector.ResetGate(w.Context(), "g:")
			require.NoError(w, err)
			require.True(w, started)
			require.Equal(w, GateCheck{Gate: "g:", Running: 2, Slots: 2}, was)
			require.Equal(w, "2", w.do("HGET", w.keys.Gates(), "g:\nr"))
		},
		"are not compared beyond a bound": func(w *world) {
			words := []string{"HSET", w.keys.Admitted()}
			for n := range lua.MaxCounted + 1 {
				words = append(words, strconv.Itoa(n), "1\ng:\nq")
			}
			w.do(words...)
			_, err := w.inspector.ResetGate(w.Context(), "g:")
			require.ErrorIs(w, err, ErrManySlots)
			require.Equal(w, int64(0), w.do("EXISTS", w.keys.Gates()))
		},
		"are read a part at a time, however many gates there are": func(w *world) {
			words, index := []string{"HSET", w.keys.Gates()}, []string{"ZADD", w.keys.Waiting()}
			for n := range 1500 {
				gate := fmt.Sprintf("t:%04d", n)
				words = append(words, gate+"\nr", "1")
				index = append(index, strconv.Itoa(n), gate)
				w.do("LPUSH", w.keys.WaitingList(gate), "q\n"+sample("A", strconv.Itoa(n)))
			}
			w.do(words...)
			w.do(index...)
			limits, err := w.inspector.Limits(w.Context())
			require.NoError(w, err)
			require.Equal(w, []int64{1500, 1000, 1500}, []int64{limits.Limits[0].Running, limits.Limits[0].Waiting, int64(limits.Limits[0].Gates)})
			require.Len(w, limits.Problems, 1)
			require.Equal(w, int64(1000), w.status().Waiting)
			for _, key := range []string{"1450", "0003", strings.Repeat("k", 201), "line\nfeed"} {
				gate := limit.Limit{Name: "t"}.Gate(key).Name
				w.wait(gate, "q", sample("A", "the last"))
				d, _, err := w.inspector.Limit(w.Context(), "t", &key)
				require.NoError(w, err)
				require.Len(w, d.Gates, 1, gate)
				require.Equal(w, gate, d.Gates[0].Name)
				require.NotZero(w, d.Waiting)
				require.Equal(w, "the last", d.Waiters[len(d.Waiters)-1].ID)
				w.do("DEL", w.keys.WaitingList(gate))
				w.do("ZREM", w.keys.Waiting(), gate)
			}
			check, err := w.inspector.CheckLimits(w.Context())
			require.NoError(w, err)
			require.Len(w, check.Wrong, maxShown)
			require.Equal(w, 1500, check.Looked)
		},
	})
}
