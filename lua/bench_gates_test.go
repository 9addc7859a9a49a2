package lua

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

// BenchmarkLimited says what a limit costs Redis: beside plain jobs, jobs with a gate each, which start at once,
// and jobs of ten gates with room for three, nearly all of which wait. It is the server's CPU time, its network
// included, by INFO cpu, from the take to the end; of all turns the median.
func BenchmarkLimited(b *testing.B) {
	measured(b, []int{50, 10, 1}, func(m *meter) {
		m.gated("plain", nil)
		m.gated("at-once", func(job int) *Gate { return gateOf("l:"+strconv.Itoa(job%1000), 1000) })
		m.gated("waits", func(job int) *Gate { return gateOf("w:"+strconv.Itoa(job%10), 3) })
	})
}

// gatedTurn is how many jobs run between two readings of the clock.
const gatedTurn = 500

// gated pushes jobs with these gates, and lets them run. Those that have ended are settled with the next take, as
// a process does.
func (m *meter) gated(name string, gateOf func(job int) *Gate) {
	m.Helper()
	jobs, gates := m.benchJobs(gatedTurn), make(map[string]*Gate)
	m.push("q", jobs[:250]...)
	m.push("q", jobs[250:]...)
	for at, bytes := range jobs {
		if gateOf != nil {
			gates[bytes] = gateOf(at)
		}
	}
	before := m.cpu()
	var calls []driver.Call
	for left := len(jobs); left > 0; {
		take := m.keys.Take(m.identity, []string{"q"}, m.size, MaxBytes, noLimit)
		replies := m.client.Do(m.Context(), append(calls, take.Call)...)
		taken, err := take.Read(replies[len(replies)-1])
		require.NoError(m, err)
		calls = nil
		if begun := m.begin(taken, gates); len(begun) > 0 {
			left -= len(begun)
			m.number++
			calls = []driver.Call{m.keys.Settle(Settlement{
				Identity: m.identity, Number: m.number, Mark: m.number, Jobs: begun, Queues: []string{"q"}, Today: m.today,
			}).Call}
		}
	}
	require.NoError(m, m.client.Do(m.Context(), calls...)[0].Err)
	m.spent[name] = append(m.spent[name], (m.cpu()-before)*1e6/gatedTurn)
	require.Zero(m, m.world.number("EXISTS", m.keys.Gates(), m.keys.Admitted(), m.keys.Waiting()))
}

// begin starts jobs that were taken, and returns the ends of those that begin.
func (m *meter) begin(taken Taken, gates map[string]*Gate) (begun []Settled) {
	m.Helper()
	if len(taken.Jobs) == 0 {
		return nil
	}
	var starts []Start
	for _, bytes := range taken.Jobs[0].Bytes {
		starts = append(starts, Start{Queue: "q", Bytes: bytes, Gate: gates[bytes]})
	}
	var parked []int
	if starts[0].Gate != nil {
		parked = ask(m.world, m.keys.Start(m.identity, starts)).Parked
	}
	for at, start := range starts {
		if !slices.Contains(parked, at) {
			begun = append(begun, Settled{Queue: "q", Bytes: start.Bytes, Gate: start.Gate, Outcome: job.Done()})
		}
	}
	return begun
}
