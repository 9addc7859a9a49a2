package lua

import (
	"crypto/sha1" //nolint:gosec // a name in Redis, as redis.sha1hex makes it
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// A gateModel takes random steps with limited jobs, and holds after each of them what must always be true.
type gateModel struct {
	*world
	random    *rand.Rand
	gates     map[string]*Gate // by the first letter of a job
	processes []*gateProcess
	born      int
	accepted  map[string]int // how many copies of each job there must be; a recovery changes their bytes
	deleted   map[string]bool
}

type gateProcess struct {
	identity string
	number   int64
	started  map[string]bool // bytes whose start was sent
	last     *Settlement
}

var gateQueues = []string{"q", "r"}

func newGateModel(w *world, seed uint64) *gateModel {
	m := &gateModel{world: w, random: rand.New(rand.NewPCG(seed, 1)), accepted: make(map[string]int), deleted: make(map[string]bool)} //nolint:gosec // repeatable
	m.gates = map[string]*Gate{
		"a": gateOf("l:a", 2), "b": gateOf("l:b", 2), "c": gateOf("one:", 1),
		"d": {Name: "rate:d", Size: Size{Rate: RateWindow, N: 3, Per: 20 * time.Millisecond}},
		"e": {Name: "both:e", Size: Size{Concurrency: 2, Rate: RateLeaky, N: 4, Per: 20 * time.Millisecond}},
	}
	for range 3 {
		m.processes = append(m.processes, m.newProcess())
	}
	return m
}

func (m *gateModel) newProcess() *gateProcess {
	return &gateProcess{identity: m.process(gateQueues...), started: make(map[string]bool)}
}

func (m *gateModel) chance(percent int) bool { return m.random.IntN(100) < percent }

// letter is the first letter of a job without the marks of its crashes.
func (m *gateModel) gate(bytes string) *Gate { return m.gates[bytes[:1]] }

func (m *gateModel) pushSome() {
	letters := []string{"a", "b", "c", "d", "e"}
	for range 1 + m.random.IntN(4) {
		m.born++
		bytes := letters[m.random.IntN(len(letters))] + strconv.Itoa(m.born)
		queue := gateQueues[m.random.IntN(2)]
		copies := 1
		if m.chance(10) {
			copies = 2
		}
		for range copies {
			m.push(queue, bytes)
			m.accepted[bytes]++
		}
	}
}

func (m *gateModel) takeSome(p *gateProcess) {
	m.take(p.identity, 1+m.random.IntN(4), gateQueues...)
}

// inHand are the entries of a working list, oldest first.
func (m *gateModel) inHand(p *gateProcess, queue string) []string {
	entries := m.list(m.keys.Working(queue, p.identity))
	slices.Reverse(entries)
	return entries
}

func (m *gateModel) startSome(p *gateProcess) {
	var starts []Start
	for _, queue := range gateQueues {
		for _, bytes := range m.inHand(p, queue) {
			if m.chance(80) {
				starts = append(starts, Start{Queue: queue, Bytes: bytes, Gate: m.gate(bytes), First: strings.Contains(bytes, "'")})
			}
		}
	}
	if len(starts) == 0 {
		return
	}
	begun := func(started Started) {
		for at, start := range starts {
			if !slices.Contains(started.Lost, at) && !slices.Contains(started.Parked, at) {
				p.started[start.Bytes] = true
			}
		}
	}
	held := m.hash(m.keys.Slots(p.identity))
	begun(ask(m.world, m.keys.Start(p.identity, starts)))
	for sum, name := range m.hash(m.keys.Slots(p.identity)) {
		// Only settles stop a gate. So if it is stopped now, it was when the start began.
		if _, had := held[sum]; !had {
			require.Zero(m, m.number("EXISTS", m.keys.Stop(name)), "start: gate %s is stopped", name)
		}
	}
	if m.chance(30) { // its reply was lost
		m.check("start")
		begun(ask(m.world, m.keys.Start(p.identity, starts)))
	}
}

func (m *gateModel) settleSome(p *gateProcess) {
	p.number++
	s := m.settlement(p.identity, p.number)
	s.Queues = gateQueues
	if m.chance(20) {
		s.Queues = gateQueues[:1]
	}
	for _, queue := range gateQueues {
		for _, bytes := range m.inHand(p, queue) {
			end := Settled{Queue: queue, Bytes: bytes, Outcome: job.Requeued()}
			if p.started[bytes] {
				end.Gate = m.gate(bytes)
				switch m.random.IntN(8) {
				case 0:
					end.Outcome = job.Requeued()
				case 1:
					end.Outcome = job.Waits(time.Duration(m.random.IntN(10)) * time.Millisecond)
				case 2, 3:
					continue
				default:
					end.Outcome = job.Done()
				}
			} else if m.chance(70) {
				continue
			}
			s.Jobs = append(s.Jobs, end)
		}
	}
	p.last = &s
	m.settled(p, ask(m.world, m.keys.Settle(s)))
	if m.chance(30) {
		m.check("settle")
		before := m.lasting()
		ask(m.world, m.keys.Settle(s))
		require.Equal(m, before, m.lasting(), "a settle that is sent again writes nothing")
	}
}

// lasting is everything but keys that expire within a test.
func (m *gateModel) lasting() map[string]any {
	m.Helper()
	all := m.everything()
	maps.DeleteFunc(all, func(key string, _ any) bool {
		return strings.HasPrefix(key, m.keys.Rate("")) || strings.HasPrefix(key, m.keys.Stop(""))
	})
	return all
}

// settled takes in a verdict: the jobs of s may have been reordered before it.
func (m *gateModel) settled(p *gateProcess, verdict SettleVerdict) {
	require.Equal(m, SettleSettled, verdict.Word)
	for at, end := range p.last.Jobs {
		if slices.Contains(verdict.Lost, at) {
			continue
		}
		if end.Outcome.Exit() == job.ExitDone {
			m.accepted[end.Bytes]--
		}
		if !slices.ContainsFunc(gateQueues, func(queue string) bool { return slices.Contains(m.inHand(p, queue), end.Bytes) }) {
			delete(p.started, end.Bytes)
		}
	}
}

// crash kills a process and recovers it, in pieces. An old janitor knows no slots.
func (m *gateModel) crash(at int) {
	p, old := m.processes[at], m.chance(25)
	m.lapse(p.identity)
	for _, queue := range gateQueues {
		for {
			entries := m.list(m.keys.Working(queue, p.identity)) // newest first
			if len(entries) == 0 {
				break
			}
			entries = entries[:1+m.random.IntN(len(entries))]
			orphans := Orphans{Queue: queue}
			for _, bytes := range entries {
				o := Orphan{Old: bytes, New: bytes + "'"}
				switch m.random.IntN(10) {
				case 0:
					o.Home = HomeDead
				case 1:
					o.Home = HomeQuarantine
				}
				m.accepted[bytes]--
				if o.Home != HomeDead && o.Home != HomeQuarantine {
					m.accepted[o.New]++
				}
				orphans.Entries = append(orphans.Entries, o)
			}
			if old {
				for _, o := range orphans.Entries {
					m.redis("LREM", m.keys.Working(queue, p.identity), "1", o.Old)
					if o.Home == "" {
						m.redis("RPUSH", m.keys.Queue(queue), o.New)
					}
					m.deleted[hashOf(o.Old)] = true // its admission, if it has one, lapses
				}
				continue
			}
			ask(m.world, m.keys.Recover(p.identity, gateQueues, []Orphans{orphans}, m.today))
			m.check("recover")
		}
	}
	ask(m.world, m.keys.Recover(p.identity, gateQueues, nil, m.today))
	if old {
		for ask(m.world, m.keys.FreeSlots(p.identity, gateQueues)) > 0 { // until none is left
		}
	}
	require.Zero(m, m.number("EXISTS", m.keys.Slots(p.identity)), "a recovery forgot a slot")
	require.True(m, ask(m.world, m.keys.Forget(p.identity, gateQueues, 0)))
	m.processes[at] = m.newProcess()
}

// poll is what the poller does with gates, due or not.
func (m *gateModel) poll() {
	var names []string
	for _, entry := range ask(m.world, m.keys.GatesByLook(m.chance(50), 64)) {
		names = append(names, entry.Bytes)
	}
	if len(names) == 0 {
		return
	}
	for at, queue := range ask(m.world, m.keys.Heads(names)) {
		for queue != "" {
			queue = ask(m.world, m.keys.Admit(names[at], queue)).Next
			m.check("admit")
		}
	}
}

// lapseSome deletes some admitted jobs, as an operator does or as a foreign hand, and lets admissions be old.
func (m *gateModel) lapseSome() {
	admissions := ask(m.world, m.keys.Admissions())
next:
	for _, a := range admissions {
		if a.Lapsed {
			continue
		}
		if m.chance(20) {
			for _, bytes := range m.list(m.keys.Queue(a.Queue)) {
				if hashOf(bytes) == a.Hash {
					if m.chance(50) {
						from := Source{Key: m.keys.Queue(a.Queue), List: true, Orderly: 1000}
						require.Empty(m, ask(m.world, m.keys.Act(from, groupTo(DestinationNone, bytes))).Gone)
						m.accepted[bytes]--
						m.check("act")
						continue next
					}
					m.redis("LREM", m.keys.Queue(a.Queue), "0", bytes)
					left := 0
					for _, queue := range gateQueues {
						left += count(m.list(m.keys.Queue(queue)), bytes)
						for _, p := range m.processes {
							left += count(m.inHand(p, queue), bytes)
						}
					}
					for _, entry := range m.list(m.keys.WaitingList(a.Gate)) {
						left += count([]string{ParseWaiter(entry).Bytes}, bytes)
					}
					m.accepted[bytes], m.deleted[a.Hash] = left, true
				}
			}
		}
		if m.chance(50) {
			m.redis("HSET", m.keys.Admitted(), a.Hash, "1000\n"+a.Gate+"\n"+a.Queue)
		}
	}
	ask(m.world, m.keys.Lapse(ask(m.world, m.keys.Admissions())))
}

func count(texts []string, text string) (n int) {
	for _, other := range texts {
		if other == text {
			n++
		}
	}
	return n
}

func hashOf(bytes string) string {
	sum := sha1.Sum([]byte(bytes)) //nolint:gosec // a name
	return hex.EncodeToString(sum[:])
}

// check holds what must be true after each step.
func (m *gateModel) check(step string) {
	m.Helper()
	all := m.everything()
	running, admitted, copies, places := make(map[string]int), make(map[string]int), make(map[string]int), make(map[string]bool)
	hash := func(key string) map[string]string { fields, _ := all[key].(map[string]string); return fields }
	list := func(key string) []string { entries, _ := all[key].([]string); return entries }
	for _, p := range m.processes {
		held := make(map[string]bool)
		for _, queue := range gateQueues {
			for _, bytes := range list(m.keys.Working(queue, p.identity)) {
				held[hashOf(bytes)], places[hashOf(bytes)] = true, true
				copies[bytes]++
			}
		}
		for sum := range hash(m.keys.Slots(p.identity)) {
			require.True(m, held[sum], "%s: a slot of a job that its process does not have", step)
		}
	}
	for key := range all {
		if strings.HasPrefix(key, m.keys.Slots("")) {
			for _, name := range hash(key) {
				running[name]++
			}
		}
	}
	for _, queue := range gateQueues {
		for _, bytes := range list(m.keys.Queue(queue)) {
			places[hashOf(bytes)] = true
			copies[bytes]++
		}
	}
	for sum, text := range hash(m.keys.Admitted()) {
		a, ok := ParseAdmission(sum, text)
		require.True(m, ok, text)
		if !a.Lapsed {
			admitted[a.Gate]++
			require.True(m, places[sum] || m.deleted[sum], "%s: an admission of a job that is nowhere: %s", step, text)
		}
	}
	counts := hash(m.keys.Gates())
	var waiting []string
	for _, gate := range m.gates {
		number := func(field string) int { n, _ := strconv.Atoi(counts[field]); return n }
		require.Equal(m, running[gate.Name], number(gate.RunningField()), "%s: running of %s", step, gate.Name)
		require.Equal(m, admitted[gate.Name], number(gate.AdmittedField()), "%s: admitted of %s", step, gate.Name)
		if most := gate.Size.Concurrency; most > 0 {
			require.LessOrEqual(m, running[gate.Name]+admitted[gate.Name], most, "%s: %s", step, gate.Name)
		}
		waiters := list(m.keys.WaitingList(gate.Name))
		for _, entry := range waiters {
			require.Equal(m, gate, m.gate(ParseWaiter(entry).Bytes))
			copies[ParseWaiter(entry).Bytes]++
		}
		if len(waiters) > 0 {
			waiting = append(waiting, gate.Name)
		}
	}
	index := []string(nil)
	for at, member := range list(m.keys.Waiting()) {
		if at%2 == 0 {
			index = append(index, member)
		}
	}
	require.ElementsMatch(m, waiting, index, "%s: the index", step)
	for bytes, want := range m.accepted {
		require.Equal(m, want, copies[bytes], "%s: copies of %s", step, bytes)
		delete(copies, bytes)
		if want == 0 {
			delete(m.accepted, bytes)
		}
	}
	require.Empty(m, copies, step)
}

func (m *gateModel) run(steps int) {
	for n := range steps {
		p := m.processes[m.random.IntN(len(m.processes))]
		step := ""
		switch m.random.IntN(12) {
		case 0, 1:
			step = "push"
			m.pushSome()
		case 2, 3:
			step = "take"
			m.takeSome(p)
		case 4, 5, 6:
			step = "start"
			m.startSome(p)
		case 7, 8:
			step = "settle"
			m.settleSome(p)
		case 9:
			step = "poll"
			m.poll()
		case 10:
			step = "lapse"
			m.lapseSome()
		case 11:
			if m.chance(40) {
				step = "crash"
				m.crash(slices.Index(m.processes, p))
			}
		}
		m.check(fmt.Sprintf("step %d: %s", n, step))
	}
}

// drain lets all jobs run to their end. However slow the machine is, some job must end within a minute.
func (m *gateModel) drain() {
	deadline, left := time.Now().Add(time.Minute), len(m.accepted)
	for len(m.accepted) > 0 {
		if len(m.accepted) < left {
			deadline, left = time.Now().Add(time.Minute), len(m.accepted)
		}
		require.Less(m, time.Now(), deadline, "%v", m.everything())
		m.lapseSomeOld()
		m.poll()
		for _, p := range m.processes {
			m.take(p.identity, 5, gateQueues...)
			m.startSome(p)
			m.settleSome(p)
		}
		m.check("drain")
	}
	m.lapseSomeOld()
	require.Zero(m, m.number("EXISTS", m.keys.Gates(), m.keys.Waiting()), "%v", m.everything())
	for _, p := range m.processes {
		require.Zero(m, m.number("EXISTS", m.keys.Slots(p.identity)))
	}
}

// lapseSomeOld lets the admissions of deleted jobs lapse.
func (m *gateModel) lapseSomeOld() {
	for _, a := range ask(m.world, m.keys.Admissions()) {
		if !a.Lapsed && m.deleted[a.Hash] {
			m.redis("HSET", m.keys.Admitted(), a.Hash, "1000\n"+a.Gate+"\n"+a.Queue)
		}
	}
	ask(m.world, m.keys.Lapse(ask(m.world, m.keys.Admissions())))
}

func TestGatesStayExactWhateverHappens(t *testing.T) {
	var promises []promise
	for seed := range uint64(3) {
		promises = append(promises, promise{fmt.Sprintf("seed_%d", seed), func(w *world) {
			m := newGateModel(w, seed)
			m.run(200)
			m.drain()
		}})
	}
	keep(t, promises...)
}
