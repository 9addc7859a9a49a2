package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/retry"
)

// cancelRaces is how many jobs are cancelled; BELAY_CANCELS sets another number.
func cancelRaces(t *testing.T) int {
	t.Helper()
	races := 300
	if text := os.Getenv("BELAY_CANCELS"); text != "" {
		var err error
		races, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	return races
}

// The kinds of jobs that are cancelled: what they are doing when they are.
const (
	cancelStarting = iota
	cancelRunning
	cancelEnding
	cancelRetrying
	cancelScheduled
	cancelRecovered
	cancelKinds
)

// A cancelRace is one job that is cancelled, and what is known of it.
type cancelRace struct {
	jid   string
	kind  int
	said  inspect.Cancellation
	at    time.Time // when Cancel returned
	again bool      // another job with the jid was pushed afterwards
}

// A raceBook records what truly ran in this process.
type raceBook struct {
	mu     sync.Mutex
	starts map[string][]time.Time
	done   map[string]int // by class and jid
	causes map[string]error
}

// run is the handler of the races. Its arguments are how long it runs, in milliseconds, and how often it fails.
func (b *raceBook) run(ctx context.Context, j *job.Job) error {
	var args [2]int
	if err := json.Unmarshal([]byte(j.ArgsJSON()), &args); err != nil {
		return err
	}
	if j.Class() == "Race" {
		b.mu.Lock()
		b.starts[j.JID()] = append(b.starts[j.JID()], time.Now())
		b.mu.Unlock()
	}
	select {
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		b.causes[j.JID()] = context.Cause(ctx)
		return ctx.Err()
	case <-time.After(time.Duration(args[0]) * time.Millisecond):
	}
	if count, failed := j.RetryCount(); args[1] > 0 && (!failed || count+1 < args[1]) {
		return retry.In(rand.N(300*time.Millisecond), errors.New("fails"))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[j.Class()+" "+j.JID()]++
	return nil
}

func (b *raceBook) startsOf(jid string) []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.starts[jid]
}

// Every answer of Cancel is true, whatever the job is doing: a removed job starts no more, a job that is told
// to stop is not run again, and another job with the same jid that is pushed afterwards runs.
func TestCancelsAreTruthful(t *testing.T) {
	t.Parallel()
	s := ordinarySite(t, oracle.Acts(), oracle.Allow(oracle.Nowhere, oracle.Queue)) // some jids come again
	book, hands := &raceBook{starts: make(map[string][]time.Time), done: make(map[string]int), causes: make(map[string]error)}, newLedger(t)
	redis, pusher, operators := s.driverOf(check.RoleWorker), s.clientOf(check.RoleProducer), inspect.New(s.clientOf(check.RoleOperator))
	for range 2 {
		s.run(launcher.Config{Client: redis, Queues: []fetch.Queue{{Name: "here"}}, Concurrency: 20, Beat: 200 * time.Millisecond, TTL: 20 * time.Second}, book.run)
	}
	workers := s.supervise(2, append([]string{"-q", "hands", "-c", "8", "--exec", hands.exec("Race")}, fast...)...)
	striking, strikes := make(chan struct{}), sync.WaitGroup{}
	strikes.Go(func() {
		for {
			select {
			case <-striking:
				return
			case <-time.After(2 * time.Second): // a start of a worker is dear
				workers.kill()
			}
		}
	})

	races := make([]*cancelRace, cancelRaces(t))
	var next atomic.Int64
	var loops sync.WaitGroup
	for range 8 {
		loops.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(races) && !t.Failed(); n = int(next.Add(1)) - 1 {
				races[n] = s.cancelRace(pusher, operators, book, n%cancelKinds)
			}
		})
	}
	loops.Wait()
	close(striking)
	strikes.Wait()
	require.False(t, t.Failed())
	eventually(t, "all jobs to end", func() bool { return s.waiting() == 0 })
	workers.end()

	for _, started := range hands.starts("") {
		book.starts[started.JID] = append(book.starts[started.JID], started.At)
	}
	results := make(map[string]int)
	for _, race := range races {
		results[fmt.Sprintf("%d %s", race.kind, race.said.Result)]++
		race.judge(t, book)
	}
	t.Logf("%d deaths of workers; results by kind: %v", workers.deaths(), results)
	// Idle workers take a job at once, also one that was recovered, so it is seldom removed then.
	for result, kinds := range map[inspect.CancelResult][]int{
		inspect.CancelRemoved:  {cancelRetrying, cancelScheduled},
		inspect.CancelStopping: {cancelStarting, cancelRunning, cancelRecovered},
	} {
		for _, kind := range kinds {
			assert.Positive(t, results[fmt.Sprintf("%d %s", kind, result)], "kind %d was never %s: the test proves less than it should", kind, result)
		}
	}
}

// kill kills one of its workers.
func (c *supervisor) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range rand.Perm(len(c.all)) {
		if !c.all[n].ended() {
			_ = syscall.Kill(c.all[n].pid, syscall.SIGKILL)
			return
		}
	}
}

// cancelRace pushes a job, cancels it at some moment, and perhaps pushes another one with its jid.
func (s *site) cancelRace(pusher *client.Client, operators *inspect.Inspector, book *raceBook, kind int) *cancelRace {
	race := &cancelRace{jid: newJID(), kind: kind}
	j := client.RawJob{Class: "Race", JID: race.jid, Queue: "here", Args: []any{0, 0}}
	var wait time.Duration
	switch kind {
	case cancelStarting:
		j.Args = []any{rand.IntN(50), 0}
		wait = rand.N(2 * time.Millisecond)
	case cancelRunning:
		j.Args = []any{60_000, 0}
	case cancelEnding:
		j.Args = []any{10, 0}
		wait = 8*time.Millisecond + rand.N(6*time.Millisecond)
	case cancelRetrying:
		j.Args = []any{rand.IntN(10), 8}
		wait = rand.N(150 * time.Millisecond)
	case cancelScheduled:
		j.In = time.Hour
		if rand.IntN(2) == 0 {
			j.In = 20 * time.Millisecond
			wait = rand.N(30 * time.Millisecond)
		}
	case cancelRecovered:
		j.Queue, j.Args = "hands", []any{0, 500}
		wait = rand.N(4 * time.Second)
	}
	if _, err := pusher.Push(s.t.Context(), j); err != nil {
		s.t.Errorf("push: %v", err)
		return race
	}
	if kind == cancelRunning {
		eventually(s.t, "the start of "+race.jid, func() bool { return len(book.startsOf(race.jid)) > 0 })
	}
	time.Sleep(wait) // the moment is what is tested
	results, err := operators.Cancel(s.t.Context(), race.jid)
	race.at = time.Now()
	if err != nil || results[0].Unseen != "" {
		s.t.Errorf("cancel: %+v, %v", results, err)
		return race
	}
	race.said = results[0]
	if race.again = race.said.Result == inspect.CancelRemoved && rand.IntN(3) == 0; race.again {
		if _, err := pusher.Push(s.t.Context(), client.RawJob{Class: "Again", JID: race.jid, Queue: "here", Args: []any{0, 0}}); err != nil {
			s.t.Errorf("push again: %v", err)
		}
	}
	return race
}

// patienceToStop is how long after the answer a job that is told to stop may still start: a process that is
// just taking it learns its mark with the next heartbeat.
const patienceToStop = 2 * time.Second

func (race *cancelRace) judge(t *testing.T, book *raceBook) {
	t.Helper()
	started := func(after time.Time) (late bool) {
		for _, at := range book.starts[race.jid] {
			late = late || at.After(after)
		}
		return late
	}
	switch race.said.Result {
	case inspect.CancelRemoved:
		require.False(t, started(race.at), "%+v was removed, and started", race)
		require.Zero(t, book.done["Race "+race.jid], "%+v was removed, and is done", race)
	case inspect.CancelStopping, inspect.CancelMarked:
		require.False(t, started(race.at.Add(patienceToStop)), "%+v was run again", race)
	case inspect.CancelDone:
		require.Equal(t, cancelRecovered, race.kind, "only crashes move a job to the dead set here: %+v", race)
	}
	if race.kind == cancelRunning {
		require.Contains(t, []inspect.CancelResult{inspect.CancelStopping, inspect.CancelMarked}, race.said.Result,
			"%+v: it may have ended before it was found", race)
		require.ErrorIs(t, book.causes[race.jid], launcher.ErrCancelled)
		require.Len(t, book.starts[race.jid], 1)
	}
	if race.again {
		require.Equal(t, 1, book.done["Again "+race.jid], "%+v: the later job of the same jid was harmed", race)
	}
}
