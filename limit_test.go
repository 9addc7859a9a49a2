package belay_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

type webhook struct {
	Tenant string
	URL    string
}

func tenantOf(w webhook) string { return w.Tenant }

func TestDefineNamesEveryMistakeOfALimit(t *testing.T) {
	t.Parallel()
	five := belay.Limit{Name: "five", Concurrency: 5}
	for _, c := range []struct {
		promise string
		define  func()
		says    []string
	}{
		{"all_of_the_limit_itself", func() {
			belay.Define[webhook]("A", belay.LimitedTo(belay.Limit{Concurrency: -1, Rate: belay.Window(0, 0)}))
		},
			[]string{"its name must", "concurrency -1", "a window of 0 starts", "a window of 0s"}},
		{"a_limit_of_nothing", func() { belay.Define[webhook]("A", belay.LimitedTo(belay.Limit{Name: "x"})) }, []string{"it limits nothing"}},
		{"a_key_of_other_arguments", func() { belay.Define[int]("A", belay.Limited(five, tenantOf)) },
			[]string{"wants a belay_test.webhook, and the arguments are a int"}},
		{"no_key", func() { belay.Define[webhook]("A", belay.Limited[webhook](five, nil)) }, []string{"the key of Limited is nil"}},
		{"two_limits", func() { belay.Define[webhook]("A", belay.LimitedTo(five), belay.Limited(five, tenantOf)) }, []string{"has two limits"}},
		{"typed_keys_without_a_definition", func() {
			server := newServer(t, openShared(t), belay.ServerConfig{})
			server.HandleRaw("A", func(context.Context, *belay.Job) error { return nil }, belay.Limited(five, tenantOf))
		}, []string{"wants a belay_test.webhook"}},
	} {
		t.Run(c.promise, func(t *testing.T) {
			t.Parallel()
			defer func() {
				text, _ := recover().(string)
				for _, part := range c.says {
					require.Contains(t, text, part)
				}
			}()
			c.define()
		})
	}
}

func TestTwoSizesOfOneLimitAreAMistake(t *testing.T) {
	t.Parallel()
	server := newServer(t, openShared(t), belay.ServerConfig{})
	none := func(context.Context, webhook) error { return nil }
	belay.Define[webhook]("A", belay.LimitedTo(belay.Limit{Name: "five", Concurrency: 5})).Handle(server, none)
	belay.Define[webhook]("B", belay.Limited(belay.Limit{Name: "five", Concurrency: 5}, tenantOf)).Handle(server, none)
	require.PanicsWithValue(t, `belay: Handle C: the limit "five" has two sizes; declare it once and use it for both classes`, func() {
		belay.Define[webhook]("C", belay.LimitedTo(belay.Limit{Name: "five", Rate: belay.Leaky(1, time.Second)})).Handle(server, none)
	})
	server.HandleRaw("D", func(context.Context, *belay.Job) error { return nil },
		belay.Limited(belay.Limit{Name: "raw", Concurrency: 1}, func(j *belay.Job) string { return j.JID() }))
}

// A line records which runs of each key begin, in order, and how many there are at once.
type line struct {
	mu      sync.Mutex
	began   map[string][]int
	now     map[string]int
	most    map[string]int
	ended   int
	changed chan bool
}

func newLine() *line {
	return &line{began: map[string][]int{}, now: map[string]int{}, most: map[string]int{}, changed: make(chan bool, 10_000)}
}

func (l *line) begin(key string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began[key] = append(l.began[key], n)
	l.now[key]++
	l.most[key] = max(l.most[key], l.now[key])
}

func (l *line) end(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now[key]--
	l.ended++
	l.changed <- true
}

// await waits until this many runs have ended.
func (l *line) await(t *testing.T, runs int) {
	t.Helper()
	for range runs {
		awaitValue(t, "the end of a run", l.changed)
	}
}

type numbered struct {
	Tenant string
	N      int
}

// noSlotLeft requires that nothing of any gate is left in Redis.
func noSlotLeft(t *testing.T, client *belay.Client) {
	t.Helper()
	keys := lua.NewKeys(client.Config().Prefix)
	require.Eventually(t, func() bool { // the last settle may be on its way
		left := client.Driver().Do(t.Context(), driver.Command("EXISTS", keys.Gates(), keys.Admitted(), keys.Waiting()))[0]
		return left.Err == nil && left.Value == int64(0)
	}, patience, tick)
}

// Two servers with more processors than there are slots, and three tenants: no tenant ever has more runs than
// the limit, and no slot is left at the end.
func TestALimitHoldsForEachKeyInTheWholeFleet(t *testing.T) {
	t.Parallel()
	const jobs, most = 20, 3
	client := openShared(t)
	work := belay.Define[numbered]("Work", belay.Limited(belay.Limit{Name: "tenants", Concurrency: most}, func(a numbered) string { return a.Tenant }))
	runs := newLine()
	for range 2 {
		server := newServer(t, client, belay.ServerConfig{Concurrency: 10})
		work.Handle(server, func(_ context.Context, a numbered) error {
			runs.begin(a.Tenant, a.N)
			defer runs.end(a.Tenant)
			time.Sleep(5 * time.Millisecond) // work
			return nil
		})
		running(t, server)
	}
	tenants := []string{"acme", "globex", ""}
	for n := range jobs {
		for _, tenant := range tenants {
			_, err := work.Enqueue(t.Context(), client, numbered{tenant, n})
			require.NoError(t, err)
		}
	}
	runs.await(t, jobs*len(tenants))
	for _, tenant := range tenants {
		require.Len(t, runs.began[tenant], jobs)
		require.LessOrEqual(t, runs.most[tenant], most)
	}
	noSlotLeft(t, client)
	size := client.Driver().Do(t.Context(), driver.Command("HGET", lua.NewKeys(client.Config().Prefix).Limits(), "tenants"))[0]
	require.Regexp(t, `^3 none 0 0 code \d+$`, size.Value)
}

// Jobs that wait for one slot begin in the order in which they wait.
func TestWaitersBeginInOrder(t *testing.T) {
	t.Parallel()
	const waiters = 30
	client := openShared(t)
	list := lua.NewKeys(client.Config().Prefix).WaitingList("one:")
	work := belay.Define[int]("Work", belay.LimitedTo(belay.Limit{Name: "one", Concurrency: 1}))
	runs, first, release := newLine(), make(chan bool, 1), make(chan bool)
	server := newServer(t, client, belay.ServerConfig{Concurrency: 5})
	work.Handle(server, func(_ context.Context, n int) error {
		if n == 0 {
			first <- true
			<-release
			return nil
		}
		runs.begin("", n)
		runs.end("")
		return nil
	})
	running(t, server)
	push := func(n int) {
		_, err := work.Enqueue(t.Context(), client, n)
		require.NoError(t, err)
	}
	push(0)
	awaitValue(t, "the first run", first)
	for n := range waiters {
		push(n + 1)
	}
	var waiting []int
	require.Eventually(t, func() bool {
		entries, err := lua.Texts(client.Driver().Do(t.Context(), driver.Command("LRANGE", list, "0", "-1"))[0])
		waiting = nil
		for _, entry := range slices.Backward(entries) {
			j, err := job.Parse(lua.ParseWaiter(entry).Bytes)
			require.NoError(t, err)
			n, err := work.Args(j)
			require.NoError(t, err)
			waiting = append(waiting, n)
		}
		return err == nil && len(waiting) == waiters
	}, patience, tick)
	close(release)
	runs.await(t, waiters)
	require.Equal(t, waiting, runs.began[""])
	require.Equal(t, 1, runs.most[""])
	noSlotLeft(t, client)
}

// The size that an operator has set is in force, and the server says so.
func TestTheSizeOfAnOperatorIsInForce(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	key := lua.NewKeys(client.Config().Prefix).Limits()
	const set = "7 none 0 0 operator 0"
	require.NoError(t, client.Driver().Do(t.Context(), driver.Command("HSET", key, "one", set))[0].Err)
	var log drivertest.Buffer
	server := newServer(t, client, belay.ServerConfig{Logger: slog.New(logbook.JSON(&log, slog.LevelInfo))})
	belay.Define[int]("Work", belay.LimitedTo(belay.Limit{Name: "one", Concurrency: 5})).Handle(server, func(context.Context, int) error { return nil })
	running(t, server)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "is in force") }, patience, tick)
	size, _ := client.Driver().Do(t.Context(), driver.Command("HGET", key, "one"))[0].Value.(string)
	require.True(t, strings.HasPrefix(size, "7 none 0 0 operator "), size)
}

// A handler that was refused stops its gate, and no other one; the run has not failed.
func TestRateLimitedStopsTheGateOfItsJob(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	limit := belay.Limit{Name: "api", Concurrency: 1}
	call := belay.Define[string]("Call", belay.Retries(0), belay.Limited(limit, func(to string) string { return to }))
	server := newServer(t, client, belay.ServerConfig{})
	type attempt struct {
		to      string
		attempt int
		at      time.Time
	}
	attempts := make(chan attempt, 10)
	var refused atomic.Bool
	call.Handle(server, func(ctx context.Context, to string) error {
		info, _ := belay.Info(ctx)
		attempts <- attempt{to, info.Attempt, time.Now()}
		if to == "busy" && !refused.Swap(true) {
			return belay.RateLimited(400 * time.Millisecond)
		}
		return nil
	})
	running(t, server)
	for _, to := range []string{"busy", "busy", "free"} {
		_, err := call.Enqueue(t.Context(), client, to)
		require.NoError(t, err)
	}
	got := map[string][]attempt{}
	for range 4 {
		next := awaitValue(t, "a run", attempts)
		got[next.to] = append(got[next.to], next)
	}
	require.Len(t, got["busy"], 3)
	require.GreaterOrEqual(t, got["busy"][1].at.Sub(got["busy"][0].at), 400*time.Millisecond)
	for _, run := range got["busy"] {
		require.Equal(t, 1, run.attempt, "none has failed")
	}
	noSlotLeft(t, client)
}

// For a job without a limit it is a snooze.
func TestRateLimitedSnoozesAJobWithoutALimit(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	call := belay.Define[int]("Call", belay.Retries(0))
	server := newServer(t, client, belay.ServerConfig{})
	outcomes := make(chan belay.Outcome, 1)
	call.Handle(server, func(ctx context.Context, _ int) error {
		belay.AfterRun(ctx, func(outcome belay.Outcome, _ error) { outcomes <- outcome })
		return belay.RateLimited(time.Hour)
	})
	running(t, server)
	_, err := call.Enqueue(t.Context(), client, 1)
	require.NoError(t, err)
	outcome := awaitValue(t, "the end of the run", outcomes)
	require.Equal(t, "snoozed", string(outcome.Exit()))
	require.Equal(t, time.Hour, outcome.After())
}

// A job whose key cannot be computed shares the gate of the empty key, and the server goes on.
func TestAKeyThatPanicsIsTheEmptyOne(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	var log drivertest.Buffer
	server := newServer(t, client, belay.ServerConfig{Logger: slog.New(logbook.JSON(&log, slog.LevelInfo))})
	work := belay.Define[string]("Work", belay.Limited(belay.Limit{Name: "one", Concurrency: 1}, func(to string) string {
		if to == "bad" {
			panic("secret " + to)
		}
		return to
	}))
	began, release := make(chan string, 3), make(chan bool)
	work.Handle(server, func(_ context.Context, to string) error {
		began <- to
		<-release
		return nil
	})
	running(t, server)
	for _, to := range []string{"bad", "", "good"} {
		_, err := work.Enqueue(t.Context(), client, to)
		require.NoError(t, err)
	}
	require.ElementsMatch(t, []string{"bad", "good"}, []string{awaitValue(t, "a run", began), awaitValue(t, "a run", began)})
	close(release)
	require.Empty(t, awaitValue(t, "the waiter", began))
	require.Contains(t, log.String(), "key of a limit panicked")
	noSlotLeft(t, client)
}

// Window counts real starts: never more than its number in any span, though all jobs wait at once.
func TestAWindowIsNeverExceeded(t *testing.T) {
	t.Parallel()
	const jobs, most, per = 30, 5, 250 * time.Millisecond
	client := openShared(t)
	work := belay.Define[int]("Work", belay.LimitedTo(belay.Limit{Name: "window", Rate: belay.Window(most, per)}))
	for n := range jobs {
		_, err := work.Enqueue(t.Context(), client, n)
		require.NoError(t, err)
	}
	runs := newLine()
	server := newServer(t, client, belay.ServerConfig{Concurrency: 20})
	begin := time.Now()
	work.Handle(server, func(_ context.Context, n int) error {
		runs.begin("", n)
		runs.end("")
		return nil
	})
	running(t, server)
	runs.await(t, jobs)
	require.GreaterOrEqual(t, time.Since(begin), (jobs/most-1)*per, "a slow machine only makes it longer")
	require.Len(t, runs.began[""], jobs)
	noSlotLeft(t, client)
}

// nothing is what a test gives Do to run.
func nothing(context.Context) error { return nil }

// Do takes slots of the same gate as jobs do, and gives them back.
func TestDoHoldsASlot(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	one := belay.Limit{Name: "one", Concurrency: 1}
	errOwn := errors.New("fn's own")
	err := belay.Do(t.Context(), client, one, "a", func(ctx context.Context) error {
		require.ErrorIs(t, belay.Do(ctx, client, one, "a", nothing, belay.Skip), belay.ErrOverLimit)
		require.ErrorIs(t, belay.Do(ctx, client, one, "a", nothing, belay.WaitUpTo(50*time.Millisecond)), belay.ErrOverLimit)
		return belay.Do(ctx, client, one, "b", func(context.Context) error { return errOwn }, belay.Skip)
	})
	require.ErrorIs(t, err, errOwn)
	require.PanicsWithValue(t, "oh", func() {
		_ = belay.Do(t.Context(), client, one, "a", func(context.Context) error { panic("oh") }, belay.Skip)
	})
	require.NoError(t, belay.Do(t.Context(), client, one, "a", nothing, belay.Skip), "the slot is free again")
	require.ErrorContains(t, belay.Do(t.Context(), client, belay.Limit{}, "", nothing), "limits nothing")
	require.ErrorContains(t, belay.Do(t.Context(), client, one, "", nothing, belay.WaitUpTo(-1)), "must not be negative")
	noSlotLeft(t, client)
}

// Do does not wait for a permit that comes too late.
func TestDoReturnsAtOnceIfTheRateHasNoPermitInTime(t *testing.T) {
	t.Parallel()
	for name, rate := range map[string]belay.Rate{"window": belay.Window(1, 24*time.Hour), "leaky": belay.Leaky(1, 24*time.Hour)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := openShared(t)
			daily := belay.Limit{Name: "daily", Rate: rate}
			require.NoError(t, belay.Do(t.Context(), client, daily, "", nothing))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.ErrorIs(t, belay.Do(ctx, client, daily, "", nothing, belay.WaitUpTo(time.Hour)), belay.ErrOverLimit)
			soon := belay.Limit{Name: "soon", Rate: belay.Window(1, 300*time.Millisecond)}
			require.NoError(t, belay.Do(ctx, client, soon, "", nothing))
			require.NoError(t, belay.Do(ctx, client, soon, "", nothing, belay.WaitUpTo(time.Hour)), "its permit comes in time")
		})
	}
}

// A slot is renewed as long as the function runs. If it is lost all the same, the function's context ends.
func TestDoNoticesThatItsSlotIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := belaytest.New(t).Client()
		one := belay.Limit{Name: "one", Concurrency: 1}
		err := belay.Do(t.Context(), client, one, "", func(ctx context.Context) error {
			time.Sleep(95 * time.Second) // longer than a lease
			require.NoError(t, ctx.Err())
			require.ErrorIs(t, belay.Do(ctx, client, one, "", nothing, belay.Skip), belay.ErrOverLimit, "it still has the slot")
			client.Driver().Do(ctx, driver.Command("DEL", lua.NewKeys(client.Config().Prefix).Leases()))
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, belay.ErrLimitLost)
	})
}

// While Do holds the only slot, a job waits; then it runs.
func TestAJobWaitsForTheSlotOfDo(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	one := belay.Limit{Name: "one", Concurrency: 1}
	work := belay.Define[int]("Work", belay.LimitedTo(one))
	ran := make(chan bool, 1)
	var held atomic.Bool
	server := newServer(t, client, belay.ServerConfig{})
	work.Handle(server, func(context.Context, int) error { ran <- held.Load(); return nil })
	keys := lua.NewKeys(client.Config().Prefix)
	require.NoError(t, belay.Do(t.Context(), client, one, "", func(ctx context.Context) error {
		held.Store(true)
		defer held.Store(false)
		running(t, server)
		_, err := work.Enqueue(ctx, client, 1)
		require.Eventually(t, func() bool {
			return client.Driver().Do(ctx, driver.Command("LLEN", keys.WaitingList("one:")))[0].Value == int64(1)
		}, patience, tick)
		return err
	}))
	require.False(t, awaitValue(t, "the run", ran), "it ran beside Do")
	noSlotLeft(t, client)
}

// Two busy tenants have all processors but those that another class occupies, and many waiters. A third
// tenant's jobs begin with the next runs: an admitted job goes to the back of the queue. The test ends one run
// after the other, so the speed of the machine plays no part.
func TestABusyKeyDoesNotDelayAnother(t *testing.T) {
	t.Parallel()
	const most, waiters = 4, 30
	client := openShared(t)
	keys := lua.NewKeys(client.Config().Prefix)
	work := belay.Define[string]("Work", belay.Limited(belay.Limit{Name: "tenants", Concurrency: most}, func(tenant string) string { return tenant }))
	fill := belay.Define[int]("Fill")
	server := newServer(t, client, belay.ServerConfig{Concurrency: 3 * most})
	began, filled, release, end := make(chan string, 100), make(chan bool, most), make(chan bool), make(chan bool)
	work.Handle(server, func(_ context.Context, tenant string) error {
		began <- tenant
		select {
		case <-release:
		case <-end:
		}
		return nil
	})
	fill.Handle(server, func(context.Context, int) error { filled <- true; <-end; return nil })
	push := func(tenant string, count int) {
		for range count {
			_, err := work.Enqueue(t.Context(), client, tenant)
			require.NoError(t, err)
		}
	}
	running(t, server)
	t.Cleanup(func() { close(end) }) // before the server stops
	push("acme", most+waiters)
	push("globex", most+waiters)
	for range 2 * most {
		awaitValue(t, "a run of a busy tenant", began)
	}
	length := func(list string) int64 {
		count, _ := client.Driver().Do(t.Context(), driver.Command("LLEN", list))[0].Value.(int64)
		return count
	}
	require.Eventually(t, func() bool {
		return length(keys.WaitingList("tenants:acme")) == waiters && length(keys.WaitingList("tenants:globex")) == waiters
	}, patience, tick)
	for n := range most {
		_, err := fill.Enqueue(t.Context(), client, n)
		require.NoError(t, err)
	}
	for range most {
		awaitValue(t, "a run that fills a processor", filled)
	}
	push("initech", 3)
	for newcomers, others := 0, 0; newcomers < 3; {
		release <- true
		if awaitValue(t, "another run", began) == "initech" {
			newcomers++
			continue
		}
		others++
		require.Less(t, others, most, "runs of busy tenants before those of another one")
	}
}

// Jobs at a rate of 100 a minute, in the time of a bubble, in which only what Belay itself waits for takes time;
// now and then no worker is alive for ten seconds. No minute has more starts, the rate is used to the full but for
// these stalls, and no job waits twice. BELAY_RATES says how many jobs: 10,000 take a minute of real time.
func TestARateIsUsedAndNeverExceeded(t *testing.T) {
	t.Parallel()
	const most, per, stall = 100, time.Minute, 10 * time.Second
	jobs, err := strconv.Atoi(cmp.Or(os.Getenv("BELAY_RATES"), "500"))
	require.NoError(t, err, "BELAY_RATES")
	synctest.Test(t, func(t *testing.T) {
		client := belaytest.New(t).Client()
		taken := make([]atomic.Int32, jobs)
		work := belay.Define[int]("Work", belay.Limited(belay.Limit{Name: "rate", Rate: belay.Window(most, per)}, func(n int) string {
			taken[n].Add(1)
			return ""
		}))
		for n := range jobs {
			_, err := work.Enqueue(t.Context(), client, n)
			require.NoError(t, err)
		}
		started := make(chan time.Time, jobs)
		var stalls []time.Time // their ends
		for begin := time.Now(); len(started) < jobs; {
			server, err := belay.NewServer(client, belay.ServerConfig{})
			require.NoError(t, err)
			work.Handle(server, func(context.Context, int) error {
				started <- time.Now()
				return nil
			})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- server.Run(ctx) }()
			// Some stalls begin right before the next jobs may start.
			for until := time.Now().Add(per - stall/2); len(started) < jobs && time.Now().Before(until); {
				time.Sleep(100 * time.Millisecond)
			}
			stop()
			require.NoError(t, <-ended)
			time.Sleep(stall)
			stalls = append(stalls, time.Now())
			require.Less(t, time.Since(begin), 2*per*time.Duration(1+jobs/most), "%d of %d jobs have started", len(started), jobs)
		}
		close(started)
		var at []time.Time
		for start := range started {
			at = append(at, start)
		}
		slices.SortFunc(at, time.Time.Compare)
		for n := range at[:len(at)-most] {
			require.Greater(t, at[n+most].Sub(at[n]), per, "starts %d to %d", n, n+most)
		}
		for n := range taken {
			require.LessOrEqual(t, taken[n].Load(), int32(2), "job %d was taken more than once before and once after its wait", n)
		}
		unused, stalled := time.Duration(0), time.Duration(0)
		for n, start := range at[most:] {
			from := at[most+n-1] // since when it could have started
			if full := at[n].Add(per); full.After(from) {
				from = full
			}
			unused += start.Sub(from)
			for _, end := range stalls {
				if lost := min(start.Sub(end)+stall, stall) - max(from.Sub(end)+stall, 0); lost > 0 {
					stalled += lost
				}
			}
		}
		took := at[len(at)-1].Sub(at[0])
		t.Logf("%d jobs in %v, in which %d stalls cost %v, and %v were not used besides", jobs, took, len(stalls), stalled, unused-stalled)
		require.Positive(t, stalled, "no stall cost anything")
		require.LessOrEqual(t, unused-stalled, took/50, "the rate was not used")
	})
}
