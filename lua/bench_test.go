package lua

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
)

// benchRound is the least number of jobs that is pushed in calls of 256 and taken in calls of 100 without a
// rest.
const benchRound = 6400

// BenchmarkTakeSettle100 says what a job costs Redis from its push (256 a call) over its take to its end (100
// a call, settle and take in one pipeline): the server's whole CPU time, its network included, by INFO cpu.
func BenchmarkTakeSettle100(b *testing.B) {
	w, identity := benchWorld(b)
	number, before := int64(0), w.cpu()
	for b.Loop() {
		for range benchRound / MaxItems {
			w.push("q", w.benchJobs(MaxItems)...)
		}
		var calls []driver.Call
		for range benchRound / 100 {
			take := w.keys.Take(identity, []string{"q"}, 100, MaxBytes, noLimit)
			replies := w.client.Do(w.Context(), append(calls, take.Call)...)
			taken, err := take.Read(replies[len(replies)-1])
			require.NoError(b, err)
			number++
			calls = []driver.Call{w.settleAll(identity, number, taken).Call}
		}
		require.NoError(b, w.client.Do(w.Context(), calls...)[0].Err)
	}
	jobs := float64(b.N * benchRound)
	b.ReportMetric((w.cpu()-before)*1e6/jobs, "redis-cpu-µs/job")
	b.ReportMetric(jobs/b.Elapsed().Seconds(), "jobs/s")
	require.Equal(b, b.N*benchRound, w.counter(w.keys.Processed()))
}

// BenchmarkScripts says what each of the three scripts costs inside Redis, by INFO commandstats: the network
// is left out.
func BenchmarkScripts(b *testing.B) {
	for _, size := range []int{100, 10, 1} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			w, identity := benchWorld(b)
			spent, number := map[string]float64{}, int64(0)
			timed := func(name string, run func()) {
				before := w.scripts()
				run()
				spent[name] += w.scripts() - before
			}
			// The first call of a script is EVAL with its compilation.
			w.push("q", w.benchJobs(1)...)
			w.settleOne(identity, &number)
			for b.Loop() {
				timed("push", func() { w.push("q", w.benchJobs(size)...) })
				var taken Taken
				timed("take", func() { taken = w.take(identity, size, "q") })
				number++
				timed("settle", func() { ask(w, w.settleAll(identity, number, taken)) })
			}
			for name, micros := range spent {
				b.ReportMetric(micros/float64(b.N*size), name+"-µs/job")
			}
		})
	}
}

func (w *world) settleOne(identity string, number *int64) {
	w.Helper()
	*number++
	ask(w, w.settleAll(identity, *number, w.take(identity, 1, "q")))
}

func (w *world) settleAll(identity string, number int64, taken Taken) Ask[SettleVerdict] {
	ends := make([]Settled, 0, 100)
	for _, bytes := range taken.Jobs[0].Bytes {
		ends = append(ends, end("q", bytes, job.Done()))
	}
	return w.keys.Settle(Settlement{
		Identity: identity, Number: number, Mark: number, Jobs: ends, Today: w.today,
	})
}

// benchWorld has a server of its own, whose statistics are of nothing else.
func benchWorld(b *testing.B) (w *world, identity string) {
	w = newWorld(b, openGoredis, drivertest.Start(b).URL())
	return w, w.process("q")
}

// benchJobs are payloads of about 150 bytes, no two alike.
func (w *world) benchJobs(count int) []string {
	jobs := make([]string, count)
	for i := range jobs {
		w.born++
		jid := strconv.FormatInt(int64(w.born)+1e15, 16)
		jobs[i] = `{"class":"Welcome","args":[42,"template"],"queue":"q","jid":"` + strings.Repeat("0", 24-len(jid)) + jid +
			`","retry":true,"created_at":1700000000.123456,"enqueued_at":1700000000.123456}`
	}
	return jobs
}

// cpu is how many seconds of a processor the server has used.
func (w *world) cpu() float64 {
	w.Helper()
	return w.sum(`(?m)^used_cpu_(?:sys|user):([\d.]+)`, "cpu")
}

// scripts is how many microseconds the server has spent inside scripts.
func (w *world) scripts() float64 {
	w.Helper()
	return w.sum(`(?m)^cmdstat_eval(?:sha)?:calls=\d+,usec=(\d+)`, "commandstats")
}

func (w *world) sum(pattern, section string) (sum float64) {
	w.Helper()
	info, ok := w.redis("INFO", section).(string)
	require.True(w, ok)
	for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(info, -1) {
		value, err := strconv.ParseFloat(found[1], 64)
		require.NoError(w, err)
		sum += value
	}
	return sum
}
