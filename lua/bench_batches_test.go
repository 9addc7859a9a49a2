package lua

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

// BenchmarkMember says what a member of a batch costs Redis: beside plain jobs, as many members of one batch, which
// are pushed, taken and settled as a client and a worker do it. It is the server's CPU time, its network included,
// by INFO cpu; of all turns the median.
func BenchmarkMember(b *testing.B) {
	measured(b, []int{250, 50, 10, 1}, func(m *meter) {
		m.drained("plain", false)
		m.drained("member", true)
	})
}

// drained pushes jobs in calls of the greatest size, and lets them run. Those that have ended are settled with the
// next take, as a process does.
func (m *meter) drained(name string, members bool) {
	m.Helper()
	const pushes = 5
	id := strings.Repeat("b", 24)
	if members && m.born <= 2*pushes*MaxItems {
		require.Equal(m, BatchNew, m.newBatch(id, nil))
	}
	var calls []driver.Call
	of := make(map[string]*Member)
	for range pushes {
		jobs := make([]NewJob, MaxItems)
		for i, bytes := range m.benchJobs(MaxItems) {
			if members {
				bytes = strings.Replace(bytes, `"args"`, `"belay_batch":"`+id+`/calls","args"`, 1)
				jobs[i].Member = memberOf(bytes, MemberDone)
				of[bytes] = jobs[i].Member
			}
			jobs[i].Queue, jobs[i].Job = "q", bytes
		}
		if !members {
			calls = append(calls, m.keys.PushOne(jobs)...)
			continue
		}
		m.number++
		key := &IdempotencyKey{m.keys.IdempotencyScope("bench", 0), m.number, "abcdefghijklmnopqrstuvwx", time.Hour}
		calls = append(calls, m.keys.PushUnique(key, jobs).Call)
	}
	before := m.cpu()
	for _, call := range calls {
		require.NoError(m, m.client.Do(m.Context(), call)[0].Err)
	}
	pushed := m.cpu()
	calls = nil
	for left := pushes * MaxItems; left > 0; {
		take := m.keys.Take(m.identity, []string{"q"}, m.size, MaxBytes, noLimit)
		replies := m.client.Do(m.Context(), append(calls, take.Call)...)
		taken, err := take.Read(replies[len(replies)-1])
		require.NoError(m, err)
		ends := make([]Settled, 0, m.size)
		for _, bytes := range taken.Jobs[0].Bytes {
			ends = append(ends, Settled{Queue: "q", Bytes: bytes, Outcome: job.Done(), Owned: Owned{Member: of[bytes]}})
		}
		left -= len(ends)
		m.number++
		calls = []driver.Call{m.keys.Settle(Settlement{
			Identity: m.identity, Number: m.number, Mark: m.number, Jobs: ends, Today: m.today,
		}).Call}
	}
	require.NoError(m, m.client.Do(m.Context(), calls...)[0].Err)
	run := m.cpu()
	m.spent[name+" push"] = append(m.spent[name+" push"], (pushed-before)*1e6/(pushes*MaxItems))
	m.spent[name+" run"] = append(m.spent[name+" run"], (run-pushed)*1e6/(pushes*MaxItems))
}
