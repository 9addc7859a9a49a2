package lua

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
)

// A fleet is what Redis should hold: a model in plain slices and maps of the queues, the processes and the
// sets.
type fleet struct {
	w          *world
	queues     map[string][]string // oldest first
	quarantine map[string][]string // likewise
	members    []*member
	sets       map[string]map[string]bool // by key
	ended      map[string]bool
	accepted   int
}

// A member is one process of the model.
type member struct {
	identity string
	state    State               // StateAlive also when lapsed
	lapsed   bool                // its take is fenced and a recovery succeeds
	hands    map[string][]string // by queue, newest first
	alone    string              // the quarantined job in hand, if any
	whence   string              // its queue
	number   int64
	last     *Settlement // the batch sent last, and its answer
	verdict  SettleVerdict
	stale    []Orphans // a page that a slow janitor read some time ago
}

var modelQueues = []string{"q", "r"}

// TestEveryJobIsInOnePlace lets processes come, take, settle, lapse and be recovered in any order, and
// compares after every step all that Redis holds with the model.
func TestEveryJobIsInOnePlace(t *testing.T) {
	t.Parallel()
	url := drivertest.Redis(t).URL()
	client, err := openGoredis(url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{TB: t, client: client, keys: NewKeys(drivertest.Prefix(t)), today: time.Now()}
		f := &fleet{
			w: w, queues: make(map[string][]string), quarantine: make(map[string][]string), ended: make(map[string]bool),
			sets: map[string]map[string]bool{w.keys.Retry(): {}, w.keys.Schedule(): {}, w.keys.Dead(): {}},
		}
		f.register(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"": f.check, "register": f.register, "push": f.push, "take": f.take, "take alone": f.takeAlone, "settle": f.settle, "settle again": f.settleAgain,
			"lapse": f.lapse, "beat": f.beat, "deregister": f.deregister, "read a page": f.read, "recover": f.recover,
		})
	})
}

func (f *fleet) member(rt *rapid.T) *member { return rapid.SampledFrom(f.members).Draw(rt, "process") }

func (f *fleet) register(rt *rapid.T) {
	if len(f.members) == 4 {
		rt.Skip("a fleet of four is enough")
	}
	f.members = append(f.members, &member{identity: f.w.process(modelQueues...), state: StateAlive, hands: make(map[string][]string)})
}

func (f *fleet) push(rt *rapid.T) {
	queue, count := rapid.SampledFrom(modelQueues).Draw(rt, "queue"), rapid.IntRange(1, 4).Draw(rt, "count")
	var jobs []string
	for range count {
		f.accepted++
		jobs = append(jobs, "job "+strconv.Itoa(f.accepted))
	}
	f.w.push(queue, jobs...)
	f.queues[queue] = append(f.queues[queue], jobs...)
}

func (f *fleet) take(rt *rapid.T) {
	m, most := f.member(rt), rapid.IntRange(1, 5).Draw(rt, "most")
	order := rapid.Permutation(modelQueues).Draw(rt, "order")
	taken := f.w.take(m.identity, most, order...)
	if m.lapsed || m.state == StateDead {
		require.Equal(rt, WhyFenced, taken.Why)
		return
	}
	if m.alone != "" {
		require.Equal(rt, Taken{Why: WhyQuarantine}, taken)
		return
	}
	var want []TakenJobs
	for position, queue := range order {
		count := min(most, len(f.queues[queue]))
		if count == 0 {
			continue
		}
		jobs := slices.Clone(f.queues[queue][:count])
		want = append(want, TakenJobs{Queue: position, Bytes: jobs})
		f.queues[queue] = f.queues[queue][count:]
		most -= count
		for _, bytes := range jobs {
			m.hands[queue] = slices.Insert(m.hands[queue], 0, bytes)
		}
	}
	require.Equal(rt, want, taken.Jobs)
}

func (f *fleet) takeAlone(rt *rapid.T) {
	m, order := f.member(rt), rapid.Permutation(modelQueues).Draw(rt, "order")
	want := TakenQuarantined{Word: QuarantineEmpty}
	switch {
	case m.lapsed || m.state == StateDead:
		want.Word = QuarantineFenced
	case m.holds() > 0:
		want.Word = QuarantineBusy
	default:
		for position, queue := range order {
			if len(f.quarantine[queue]) > 0 {
				want = TakenQuarantined{Word: QuarantineTaken, Queue: position, Bytes: f.quarantine[queue][0]}
				m.alone, m.whence = f.quarantine[queue][0], queue
				f.quarantine[queue] = f.quarantine[queue][1:]
				break
			}
		}
	}
	require.Equal(rt, want, ask(f.w, f.w.keys.TakeQuarantined(m.identity, order, nil)))
}

// settle ends some of the jobs that a process has or once had in hand, or never had.
func (f *fleet) settle(rt *rapid.T) {
	m := f.member(rt)
	var ends []Settled
	for range rapid.IntRange(1, 4).Draw(rt, "batch") {
		queue := rapid.SampledFrom(modelQueues).Draw(rt, "queue")
		bytes := "job " + strconv.Itoa(rapid.IntRange(1, f.accepted+1).Draw(rt, "any job"))
		if hand := m.hands[queue]; len(hand) > 0 && rapid.IntRange(0, 3).Draw(rt, "a stranger?") > 0 {
			bytes = rapid.SampledFrom(hand).Draw(rt, "job in hand")
		}
		alone := m.alone != "" && rapid.Bool().Draw(rt, "the quarantined job?")
		if alone {
			queue, bytes = m.whence, m.alone
		}
		after := time.Duration(rapid.IntRange(0, 100).Draw(rt, "delay")) * time.Second
		ended := end(queue, bytes, rapid.SampledFrom([]job.Outcome{
			job.Done(), job.Discarded(true), job.Requeued(), job.Retried(bytes, after), job.Snoozed(bytes, after), job.Died(bytes),
		}).Draw(rt, "outcome"))
		ended.Quarantined = alone
		ends = append(ends, ended)
	}
	m.number++
	batch := f.w.settlement(m.identity, m.number, ends...)
	nearNewest := rapid.Bool().Draw(rt, "near the newest?")
	batch.NearNewest = func([]Settled) bool { return nearNewest }
	ask := f.w.keys.Settle(batch) // reorders
	want := SettleVerdict{Word: SettleSettled}
	for i, settled := range batch.Jobs {
		if !f.drop(m, settled.Queue, settled.Quarantined, settled.Bytes) {
			want.Lost = append(want.Lost, i)
			continue
		}
		f.house(settled)
	}
	verdict, err := ask.Do(f.w.Context(), f.w.client)
	require.NoError(rt, err)
	require.Equal(rt, want, verdict)
	m.last, m.verdict = &batch, verdict
}

// drop takes a job out of a process' hands and says whether it was there.
func (f *fleet) drop(m *member, queue string, alone bool, bytes string) bool {
	if alone {
		if m.alone != bytes {
			return false
		}
		m.alone = ""
		return true
	}
	at := slices.Index(m.hands[queue], bytes)
	if at < 0 {
		return false
	}
	m.hands[queue] = slices.Delete(slices.Clone(m.hands[queue]), at, at+1)
	return true
}

// house puts a settled job where its outcome says.
func (f *fleet) house(settled Settled) {
	switch settled.Outcome.Exit() {
	case job.ExitRequeued:
		home := f.queues
		if settled.Quarantined {
			home = f.quarantine
		}
		home[settled.Queue] = slices.Insert(slices.Clone(home[settled.Queue]), 0, settled.Bytes)
	case job.ExitRetry:
		f.sets[f.w.keys.Retry()][settled.Bytes] = true
	case job.ExitSnoozed:
		f.sets[f.w.keys.Schedule()][settled.Bytes] = true
	case job.ExitDead:
		f.sets[f.w.keys.Dead()][settled.Bytes] = true
	default:
		f.ended[settled.Bytes] = true
	}
}

func (f *fleet) settleAgain(rt *rapid.T) {
	m := f.member(rt)
	if m.last == nil {
		rt.Skip("nothing was settled")
	}
	require.Equal(rt, m.verdict, ask(f.w, f.w.keys.Settle(*m.last)))
}

func (f *fleet) lapse(rt *rapid.T) {
	m := f.member(rt)
	if m.state == StateDead {
		rt.Skip("dead")
	}
	f.w.lapse(m.identity)
	m.lapsed = true
}

func (f *fleet) beat(rt *rapid.T) {
	m := f.member(rt)
	reply := ask(f.w, f.w.keys.Heartbeat(m.identity, someTTL))
	require.Equal(rt, m.state, reply.State)
	if m.state == StateAlive {
		m.lapsed = false
	}
	for _, member := range f.members {
		switch {
		case member.state == StateDead && member.holds() > 0:
			require.Contains(rt, reply.Lapsed, member.identity, "its jobs must be followed")
		case member.state == StateAlive:
			require.Equal(rt, member.lapsed, slices.Contains(reply.Lapsed, member.identity), member.identity)
		}
	}
}

func (m *member) holds() int {
	count := 0
	if m.alone != "" {
		count++
	}
	for _, hand := range m.hands {
		count += len(hand)
	}
	return count
}

func (f *fleet) deregister(rt *rapid.T) {
	m := f.member(rt)
	require.Equal(rt, m.holds(), ask(f.w, f.w.keys.Deregister(m.identity, modelQueues)))
	m.state = StateDead
}

// read lets a janitor read a page of a process' lists, which it will act on some steps later.
func (f *fleet) read(rt *rapid.T) {
	m := f.member(rt)
	m.stale = nil
	for _, queue := range modelQueues {
		entries := ask(f.w, f.w.keys.Entries(f.w.keys.Working(queue, m.identity), 0, MaxBytes, noLimit)).Entries
		require.ElementsMatch(rt, m.hands[queue], entries)
		list := Orphans{Queue: queue}
		for _, entry := range entries {
			home := rapid.SampledFrom([]Home{HomeQueue, HomeQueue, HomeQuarantine, HomeDead}).Draw(rt, "home")
			list.Entries = append(list.Entries, Orphan{Old: entry, New: entry, Home: home})
		}
		m.stale = append(m.stale, list)
	}
	if m.alone != "" {
		home := rapid.SampledFrom([]Home{HomeQuarantine, HomeDead}).Draw(rt, "home of the quarantined job")
		m.stale = append(m.stale, Orphans{Queue: m.whence, Quarantined: true, Entries: []Orphan{{Old: m.alone, New: m.alone, Home: home}}})
	}
}

func (f *fleet) recover(rt *rapid.T) {
	m := f.member(rt)
	answer := ask(f.w, f.w.keys.Recover(m.identity, modelQueues, m.stale, f.w.today))
	if m.state == StateAlive && !m.lapsed {
		require.Equal(rt, Recovered{State: StateAlive}, answer)
		return
	}
	m.state = StateDead
	moved := 0
	for _, list := range m.stale {
		for _, orphan := range list.Entries {
			if !f.drop(m, list.Queue, list.Quarantined, orphan.Old) {
				continue
			}
			moved++
			moves := end(list.Queue, orphan.New, job.Requeued())
			moves.Quarantined = orphan.Home == HomeQuarantine
			if orphan.Home == HomeDead {
				moves.Outcome = job.Died(orphan.New)
			}
			f.house(moves)
		}
	}
	require.Equal(rt, Recovered{State: StateDead, Left: m.holds(), Moved: moved}, answer)
}

// check reads every place that can hold a job.
func (f *fleet) check(rt *rapid.T) {
	places := make(map[string][]string)
	found := func(place string, jobs []string) {
		for _, bytes := range jobs {
			places[bytes] = append(places[bytes], place)
		}
	}
	for _, queue := range modelQueues {
		waiting := f.w.waiting(queue)
		require.True(rt, slices.Equal(f.queues[queue], waiting), "%s: %v, not %v", queue, waiting, f.queues[queue])
		found(queue, waiting)
		suspected := f.w.list(f.w.keys.Quarantine(queue))
		slices.Reverse(suspected)
		require.True(rt, slices.Equal(f.quarantine[queue], suspected), "quarantine of %s: %v, not %v", queue, suspected, f.quarantine[queue])
		found("quarantine of "+queue, suspected)
		for _, m := range f.members {
			hand := f.w.list(f.w.keys.Working(queue, m.identity))
			require.True(rt, slices.Equal(m.hands[queue], hand), "%s of %s: %v, not %v", queue, m.identity, hand, m.hands[queue])
			found(m.identity, hand)
		}
	}
	for _, m := range f.members {
		var want []string
		if m.alone != "" {
			want = []string{m.alone}
		}
		hand := f.w.list(f.w.keys.QuarantineRun(m.identity))
		require.True(rt, slices.Equal(want, hand), "alone in the hands of %s: %v, not %v", m.identity, hand, want)
		found(m.identity+" alone", hand)
	}
	for key, set := range f.sets {
		members := f.w.sorted(key)
		require.ElementsMatch(rt, slices.Collect(maps.Keys(set)), members)
		found(key, members)
	}
	for n := 1; n <= f.accepted; n++ {
		bytes := fmt.Sprintf("job %d", n)
		if f.ended[bytes] {
			require.Empty(rt, places[bytes], "%s has ended", bytes)
			continue
		}
		require.Len(rt, places[bytes], 1, bytes)
	}
}
