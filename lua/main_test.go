package lua

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/job"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// A ground is a kind of server, reached through one of the drivers.
type ground struct {
	name string
	open func(url string) (driver.Client, error)
	fake bool
}

// grounds include the fake server: users test their own programs on it, so every promise must hold there too.
// What it cannot be asked at all (a limit of memory, the cost of a script) has tests that say so.
var grounds = func() []ground {
	all := []ground{{name: "miniredis", open: openGoredis, fake: true}}
	for name, open := range adapters.Open {
		all = append(all, ground{name: name, open: open})
	}
	return all
}()

var openGoredis = adapters.Open["go-redis"]

// A promise is one thing that a script does, whatever the driver.
type promise struct {
	name string
	keep func(w *world)
}

// keep holds each promise on every ground, each time in a world of its own.
func keep(t *testing.T, promises ...promise) {
	t.Parallel()
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, g := range grounds {
				t.Run(g.name, func(t *testing.T) {
					t.Parallel()
					p.keep(g.world(t))
				})
			}
		})
	}
}

func (g ground) world(t testing.TB) *world {
	if g.fake {
		return newWorld(t, g.open, "redis://"+drivertest.Miniredis(t).Addr())
	}
	return newWorld(t, g.open, drivertest.Redis(t).URL())
}

// A world is a client and a keyspace that no other test uses.
type world struct {
	testing.TB
	client driver.Client
	keys   Keys
	prefix string
	today  time.Time // the day of the counters, the same for a whole test even at midnight
	born   int       // how many processes and jobs were given a number
}

func newWorld(t testing.TB, open func(string) (driver.Client, error), url string) *world {
	client, err := open(url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	prefix := strings.TrimSuffix(drivertest.Prefix(t), ":")
	return &world{TB: t, client: client, keys: NewKeys(prefix), prefix: prefix, today: time.Now()}
}

// ask sends an Ask that must not fail.
func ask[T any](w *world, a Ask[T]) T {
	w.Helper()
	answer, err := a.Do(w.Context(), w.client)
	require.NoError(w, err)
	return answer
}

// refused sends an Ask that the server must refuse with this code.
func refused[T any](w *world, code string, a Ask[T]) {
	w.Helper()
	_, err := a.Do(w.Context(), w.client)
	var serverError *driver.ServerError
	require.ErrorAs(w, err, &serverError)
	require.Equal(w, code, serverError.Code, serverError.Message)
}

// redis sends one plain command that must not fail.
func (w *world) redis(words ...string) any {
	w.Helper()
	reply := w.client.Do(w.Context(), driver.Command(words...))[0]
	require.NoError(w, reply.Err, "%v", words)
	return reply.Value
}

func (w *world) texts(words ...string) []string {
	w.Helper()
	texts, err := readTexts(readerOf(w.redis(words...)))
	require.NoError(w, err)
	return texts
}

func (w *world) number(words ...string) int {
	w.Helper()
	number, ok := w.redis(words...).(int64)
	require.True(w, ok, "%v answers no number", words)
	return int(number)
}

// list reads a list from its head, where the newest lie.
func (w *world) list(key string) []string { w.Helper(); return w.texts("LRANGE", key, "0", "-1") }

// waiting reads a queue in the order in which it is taken.
func (w *world) waiting(queue string) []string {
	w.Helper()
	jobs := w.list(w.keys.Queue(queue))
	for i, j := 0, len(jobs)-1; i < j; i, j = i+1, j-1 {
		jobs[i], jobs[j] = jobs[j], jobs[i]
	}
	return jobs
}

// sorted reads a sorted set, lowest score first.
func (w *world) sorted(key string) []string { w.Helper(); return w.texts("ZRANGE", key, "0", "-1") }

func (w *world) score(key, member string) float64 {
	w.Helper()
	text, ok := w.redis("ZSCORE", key, member).(string)
	require.True(w, ok, "%q is not in %s", member, key)
	score, err := strconv.ParseFloat(text, 64)
	require.NoError(w, err)
	return score
}

func (w *world) counter(key string) int {
	w.Helper()
	text, _ := w.redis("GET", key).(string)
	n, _ := strconv.Atoi(text)
	return n
}

// now is Redis' time in seconds.
func (w *world) now() float64 {
	w.Helper()
	parts := w.texts("TIME")
	seconds, err := strconv.ParseFloat(parts[0], 64)
	require.NoError(w, err)
	micros, err := strconv.ParseFloat(parts[1], 64)
	require.NoError(w, err)
	return seconds + micros/1e6
}

// everything reads the whole keyspace, so that a test can say that nothing was written.
func (w *world) everything() map[string]any {
	w.Helper()
	all := make(map[string]any)
	for _, key := range w.texts("KEYS", w.prefix+":*") {
		switch kind := w.redis("TYPE", key); kind {
		case "list":
			all[key] = w.list(key)
		case "zset":
			all[key] = w.texts("ZRANGE", key, "0", "-1", "WITHSCORES")
		case "set":
			members := make(map[string]bool)
			for _, member := range w.texts("SMEMBERS", key) {
				members[member] = true
			}
			all[key] = members
		case "hash":
			all[key] = w.hash(key)
		default:
			all[key] = w.redis("GET", key)
		}
	}
	return all
}

func (w *world) hash(key string) map[string]string {
	w.Helper()
	pairs, fields := w.texts("HGETALL", key), make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		fields[pairs[i]] = pairs[i+1]
	}
	return fields
}

// unchanged requires that act writes nothing at all.
func (w *world) unchanged(act func()) {
	w.Helper()
	before := w.everything()
	act()
	require.Equal(w, before, w.everything(), "something was written")
}

// someTTL is long enough that no test outlives it.
const someTTL = 10 * time.Minute

// process registers a process that takes from these queues.
func (w *world) process(queues ...string) string {
	w.Helper()
	w.born++
	identity := "host:1:" + strconv.Itoa(w.born)
	answer := ask(w, w.keys.Register(identity, Record{Queues: queues, Beat: time.Second, TTL: someTTL, Concurrency: 5}))
	require.True(w, answer.OK)
	return identity
}

// lapse makes a process' session one that expired long ago.
func (w *world) lapse(identity string) { w.Helper(); w.redis("ZADD", w.keys.Alive(), "1", identity) }

// into returns new jobs for a queue.
func into(queue string, jobs ...string) []NewJob {
	pushed := make([]NewJob, len(jobs))
	for i, job := range jobs {
		pushed[i] = NewJob{Queue: queue, Job: job}
	}
	return pushed
}

// push stores jobs, the oldest first.
func (w *world) push(queue string, jobs ...string) {
	w.Helper()
	require.Equal(w, "pushed", ask(w, w.keys.Push(nil, into(queue, jobs...))).Word)
}

// noLimit is a size of job above all that the tests use.
const noLimit = 1 << 30

func (w *world) take(identity string, most int, queues ...string) Taken {
	w.Helper()
	return ask(w, w.keys.Take(identity, queues, most, MaxBytes, noLimit))
}

// hold pushes jobs to queue q and takes them into the hands of a new process.
func (w *world) hold(jobs ...string) string {
	w.Helper()
	identity := w.process("q")
	w.holdMore(identity, "q", jobs...)
	return identity
}

func (w *world) holdMore(identity, queue string, jobs ...string) {
	w.Helper()
	w.push(queue, jobs...)
	require.Equal(w, []TakenJobs{{Queue: 0, Bytes: jobs}}, w.take(identity, len(jobs), queue).Jobs)
}

func end(queue, bytes string, outcome job.Outcome) Settled {
	return Settled{Queue: queue, Bytes: bytes, Outcome: outcome}
}

// settlement is a batch with the usual limits, whose earlier answers have all been read.
func (w *world) settlement(identity string, number int64, jobs ...Settled) Settlement {
	w.Helper()
	return Settlement{
		Identity: identity, Number: number, Mark: number, Jobs: jobs,
		Today: w.today,
	}
}

func (w *world) settle(identity string, number int64, jobs ...Settled) SettleVerdict {
	w.Helper()
	return ask(w, w.keys.Settle(w.settlement(identity, number, jobs...)))
}

var allSettled = SettleVerdict{Word: SettleSettled}
