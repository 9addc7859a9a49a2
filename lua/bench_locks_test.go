package lua

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

// BenchmarkUnique says what a lock costs Redis: beside calls of plain jobs, the same with locks, in turns, so
// that a busy machine is busy for both. It is the server's CPU time, its network included, by INFO cpu; of
// all turns the median.
func BenchmarkUnique(b *testing.B) {
	measured(b, []int{100, 10, 1}, (*meter).turn)
}

// measured takes turns with calls of so many jobs, and reports the median of each figure.
func measured(b *testing.B, sizes []int, turn func(m *meter)) {
	b.Helper()
	for _, size := range sizes {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			w, identity := benchWorld(b)
			m := meter{world: w, spent: make(map[string][]float64), identity: identity, size: size}
			for b.Loop() {
				turn(&m)
			}
			for name, micros := range m.spent {
				slices.Sort(micros)
				b.ReportMetric(micros[len(micros)/2], strings.ReplaceAll(name, " ", "_")+"-µs/job")
			}
		})
	}
}

// A meter measures calls of so many jobs.
type meter struct {
	*world
	identity string
	size     int
	number   int64
	spent    map[string][]float64 // µs a job
}

// perTurn is how many jobs are moved between two readings of the clock, which costs as much as a few of them.
const perTurn = 200

func (m *meter) timed(name string, calls []driver.Call) {
	m.Helper()
	before := m.cpu()
	for _, call := range calls {
		require.NoError(m, m.client.Do(m.Context(), call)[0].Err)
	}
	m.spent[name] = append(m.spent[name], (m.cpu()-before)*1e6/perTurn)
}

func (m *meter) turn() {
	m.Helper()
	scope := m.keys.IdempotencyScope("bench", 0)
	m.redis("SADD", m.keys.Queues(), "q")
	m.plain("lpush", func(jobs []string) driver.Call {
		return driver.Command(append([]string{"LPUSH", m.keys.Queue("q")}, jobs...)...)
	})
	m.plain("push", func(jobs []string) driver.Call {
		return m.keys.Push(nil, into("q", jobs...)).Call
	})
	m.plain("idempotency key", func(jobs []string) driver.Call {
		m.number++
		return m.keys.Push(&IdempotencyKey{scope, m.number, "abcdefghijklmnopqrstuvwx", time.Hour}, into("q", jobs...)).Call
	})
	m.unique()
}

// plain pushes jobs without locks, and ends them.
func (m *meter) plain(name string, push func(jobs []string) driver.Call) {
	m.Helper()
	var pushes, settles []driver.Call
	for range perTurn / m.size {
		jobs := m.benchJobs(m.size)
		pushes = append(pushes, push(jobs))
		settles = append(settles, m.ends(jobs, nil))
	}
	m.timed(name, pushes)
	m.take(m.identity, perTurn, "q")
	m.timed("settle", settles)
}

// unique does so with locks.
func (m *meter) unique() {
	m.Helper()
	var pushes, refusals, starts, renewals, settles []driver.Call
	for range perTurn / m.size {
		jobs := m.benchJobs(m.size)
		mine, others := make([]NewJob, m.size), make([]NewJob, m.size)
		begun, locks := make([]Start, m.size), make([]Lock, m.size)
		for i, bytes := range jobs {
			id := m.born - m.size + i
			locks[i] = Lock{Digest: fmt.Sprintf("%032x", id*2654435761), Owner: OwnerOf(fmt.Sprintf("%024x", id), "Welcome"), Hold: time.Hour}
			mine[i] = NewJob{Queue: "q", Job: bytes, Lock: &locks[i]}
			others[i] = NewJob{Queue: "q", Job: bytes, Lock: &Lock{Digest: locks[i].Digest, Owner: OwnerOf(fmt.Sprintf("%024x", -id), "Welcome"), Hold: time.Hour}}
			begun[i] = Start{Queue: "q", Bytes: bytes, Lock: &locks[i], Mark: true}
		}
		pushes = append(pushes, m.keys.PushUnique(nil, mine).Call)
		refusals = append(refusals, m.keys.PushUnique(nil, others).Call)
		starts = append(starts, m.keys.Start(m.identity, begun).Call)
		renewals = append(renewals, m.keys.Renew(locks).Call)
		settles = append(settles, m.ends(jobs, locks))
	}
	m.timed("unique", pushes)
	m.timed("refused", refusals)
	m.take(m.identity, perTurn, "q")
	m.timed("start", starts)
	m.timed("renew", renewals)
	m.timed("settleunique", settles)
	require.Empty(m, m.sorted(m.keys.Unique()))
}

func (m *meter) ends(jobs []string, locks []Lock) driver.Call {
	ends := make([]Settled, len(jobs))
	for i, bytes := range jobs {
		ends[i] = end("q", bytes, job.Done())
		if locks != nil {
			ends[i].Lock = &locks[i]
		}
	}
	m.number++
	return m.keys.Settle(Settlement{
		Identity: m.identity, Number: m.number, Mark: m.number, Jobs: ends, Today: m.today,
	}).Call
}
