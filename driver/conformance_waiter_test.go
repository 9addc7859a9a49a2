package driver_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/internal/drivertest/slowlink"
)

var waiterPromises = []promise{
	{name: "a_wait_moves_an_existing_entry", keep: aWaitMoves, memory: true},
	{name: "a_wait_moves_an_entry_pushed_meanwhile", keep: aWaitMovesMeanwhile},
	{name: "a_wait_lasts_its_limit", keep: aWaitLastsItsLimit, anyKind: true, memory: true},
	{name: "ending_the_context_loses_nothing", keep: endingTheContext},
	{name: "a_released_wait_has_moved_nothing_unseen", keep: aReleasedWait, anyKind: true, fake: noUnblock, memory: true},
	{name: "a_release_before_the_wait_returns_false", keep: aReleaseBeforeTheWait, fake: noUnblock},
	{name: "a_server_that_cannot_release_returns_ErrNoRelease", keep: aServerThatCannotRelease},
	{name: "a_tight_acl_cannot_release", keep: aTightACL, fake: noACL},
	{name: "a_lost_reply_of_a_wait_is_uncertain_and_the_next_wait_works", keep: aLostAnswer},
	{name: "a_stopped_server_cannot_hold_a_wait", keep: aStoppedServerCannotHold, fake: noSignals},
	{name: "a_connection_closed_while_idle_is_replaced", keep: anIdleWaiter, fake: noClientKill},
	{name: "a_wait_on_a_new_connection_can_be_released", keep: aReleaseAfterABreak, fake: noUnblock},
	{name: "closing_ends_a_wait", keep: closingEndsAWait},
	{name: "waits_do_not_delay_other_calls", keep: waitsDelayNoOtherCalls},
	{name: "a_slow_reply_is_read_to_its_end", keep: aSlowAnswer},
}

// A waited is what a Wait returned.
type waited struct {
	payload string
	ok      bool
	err     error
}

// wait starts a Wait and returns a channel that receives its outcome.
func wait(t *testing.T, waiter driver.Waiter, from, to string, limit time.Duration) <-chan waited {
	t.Helper()
	outcome := make(chan waited, 1)
	go func() {
		payload, ok, err := waiter.Wait(context.WithoutCancel(t.Context()), from, to, limit)
		outcome <- waited{payload, ok, err}
	}()
	return outcome
}

// come returns an outcome, which must arrive soon.
func come(t *testing.T, outcome <-chan waited) waited {
	t.Helper()
	select {
	case got := <-outcome:
		return got
	case <-time.After(patience):
		t.Fatal("the Wait did not return")
		return waited{}
	}
}

// waitInVain waits on a list that is empty, and returns how long that took. A busy machine may take longer to find a
// server and to dial, or to read the reply, than a Wait goes on beyond its limit; so it may be repeated.
func waitInVain(t *testing.T, waiter driver.Waiter, from, to string, limit time.Duration) (took time.Duration) {
	t.Helper()
	drivertest.Eventually(t, func() bool {
		start := time.Now()
		payload, ok, err := waiter.Wait(t.Context(), from, to, limit)
		took = time.Since(start)
		require.Equal(t, waited{}, waited{payload, ok, nil})
		return err == nil
	}, patience, time.Millisecond)
	return took
}

// aSlowAnswer checks that a wait returns the payload that it moved, even if a slow link takes seconds to
// deliver it.
func aSlowAnswer(t *testing.T, w *world) {
	const size, takes = 192 << 10, 3 * driver.WaitGrace
	large, p, addr := strings.Repeat("x", size), prefix(t), w.addr(t)
	link := slowlink.New(t, addr, slowlink.Speed{BitsPerSecond: int64(size * 8 / takes.Seconds())})
	direct := w.open(t, addr)
	get(t, direct, "LPUSH", p+"from", large)
	waiter := w.waiter(t, w.open(t, link.Addr()))
	payload, ok, err := waiter.Wait(t.Context(), p+"from", p+"to", driver.WaitGrace)
	require.NoError(t, err)
	require.True(t, ok)
	require.Len(t, payload, len(large))
}

func aWaitMoves(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	waiter := w.waiter(t, client)
	get(t, client, "LPUSH", p+"from", "first", "second")
	get(t, client, "LPUSH", p+"to", "earlier")
	for _, want := range []string{"first", "second"} {
		payload, ok, err := waiter.Wait(t.Context(), p+"from", p+"to", time.Second)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, payload)
	}
	require.Equal(t, []any{"second", "first", "earlier"}, get(t, client, "LRANGE", p+"to", "0", "-1"))
}

func aWaitMovesMeanwhile(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	arrived := faultproxy.NewGate()
	arrived.Open()
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "BLMOVE", Do: faultproxy.Hold(arrived)})
	outcome := wait(t, w.waiter(t, client), p+"from", p+"to", 10*time.Second)
	<-arrived.Arrived()
	get(t, client, "LPUSH", p+"from", "job")
	require.Equal(t, waited{"job", true, nil}, come(t, outcome))
	require.Equal(t, []any{"job"}, get(t, client, "LRANGE", p+"to", "0", "-1"))
}

func aWaitLastsItsLimit(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	waiter := w.waiter(t, client)
	waitInVain(t, waiter, p+"from", p+"to", time.Second) // which dials
	for _, limit := range []time.Duration{0, 100 * time.Millisecond, time.Second, 1500 * time.Millisecond} {
		took := waitInVain(t, waiter, p+"from", p+"to", limit)
		require.GreaterOrEqual(t, took, limit-50*time.Millisecond)
		require.Less(t, took, limit+patience)
	}
}

func endingTheContext(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	waiter := w.waiter(t, client)
	arrived := faultproxy.NewGate()
	arrived.Open()
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "BLMOVE", Do: faultproxy.Hold(arrived)})
	ctx, cancel := context.WithCancel(t.Context())
	outcome := make(chan waited, 1)
	go func() {
		payload, ok, err := waiter.Wait(ctx, p+"from", p+"to", 10*time.Second)
		outcome <- waited{payload, ok, err}
	}()
	<-arrived.Arrived()
	cancel()
	get(t, client, "LPUSH", p+"from", "job")
	require.Equal(t, waited{"job", true, nil}, come(t, outcome))
}

// releaseRounds is enough for the race to go both ways many times.
const releaseRounds = 200

func aReleasedWait(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	lane, waiter := w.lane(t, client, 1), w.waiter(t, client)
	moved := 0
	for round := range releaseRounds {
		job := strconv.Itoa(round)
		outcome := wait(t, waiter, p+"from", p+"to", 10*time.Second)
		pushed := make(chan driver.Reply, 1)
		go func() {
			pushed <- lane.Do(context.WithoutCancel(t.Context()), driver.Command("LPUSH", p+"from", job))[0]
		}()
		got := released(t, waiter, outcome)
		require.NoError(t, (<-pushed).Err)
		require.NoError(t, got.err)
		replies := client.Do(t.Context(), driver.Command("LRANGE", p+"from", "0", "-1"), driver.Command("LRANGE", p+"to", "0", "-1"))
		if got.ok {
			moved++
			require.Equal(t, []driver.Reply{{Value: []any{}}, {Value: []any{got.payload}}}, replies)
			require.Equal(t, job, got.payload)
		} else {
			require.Equal(t, []driver.Reply{{Value: []any{job}}, {Value: []any{}}}, replies)
		}
		get(t, client, "DEL", p+"from", p+"to")
	}
	t.Logf("%d of %d rounds moved a job before the release", moved, releaseRounds)
}

// released releases a Wait as often as it takes.
func released(t *testing.T, waiter driver.Waiter, outcome <-chan waited) waited {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		_, err := waiter.Release(t.Context())
		require.NoError(t, err)
		select {
		case got := <-outcome:
			return got
		default:
		}
	}
	t.Fatal("the Wait was not released")
	return waited{}
}

func aReleaseBeforeTheWait(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	waiter := w.waiter(t, client)
	no := func() {
		t.Helper()
		done, err := waiter.Release(t.Context())
		require.NoError(t, err)
		require.False(t, done)
	}
	no()
	gate := faultproxy.NewGate()
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "BLMOVE", Nth: 1, Do: faultproxy.Hold(gate)})
	outcome := wait(t, waiter, p+"from", p+"to", 10*time.Second)
	<-gate.Arrived()
	no()
	gate.Open()
	require.Equal(t, waited{}, released(t, waiter, outcome))
	no()

	get(t, client, "LPUSH", p+"from", "job")
	payload, ok, err := waiter.Wait(t.Context(), p+"from", p+"to", time.Second)
	require.Equal(t, waited{"job", true, nil}, waited{payload, ok, err}, "the connection is as good as before")
}

func aServerThatCannotRelease(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	if !w.kind.fake && !w.memory {
		for _, name := range []string{"CLIENT", "client"} {
			proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: name, Do: faultproxy.Fail("ERR unknown command 'CLIENT'")})
		}
	}
	waiter := w.waiter(t, w.open(t, proxy.Addr()))
	waitInVain(t, waiter, p+"from", p+"to", 100*time.Millisecond)
	_, err := waiter.Release(t.Context())
	require.ErrorIs(t, err, driver.ErrNoRelease)
}

func aTightACL(t *testing.T, w *world) {
	server := drivertest.Start(t)
	_, err := server.Do(t.Context(), "ACL", "SETUSER", "tight", "on", ">pass", "~*", "+@all", "-client|unblock")
	require.NoError(t, err)
	client, err := w.maker(w.kind.url(t, "tight:pass@"+server.Addr()))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	waiter := w.waiter(t, client)
	outcome := wait(t, waiter, "from", "to", 10*time.Second)
	for err == nil { // false until the wait has arrived
		_, err = waiter.Release(t.Context())
	}
	require.ErrorIs(t, err, driver.ErrNoRelease)
	get(t, client, "LPUSH", "from", "job")
	require.Equal(t, waited{"job", true, nil}, come(t, outcome))
}

func aLostAnswer(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	waiter := w.waiter(t, client)
	get(t, client, "LPUSH", p+"from", "first", "second")
	proxy.Add(faultproxy.DropReply("BLMOVE"))
	_, ok, err := waiter.Wait(t.Context(), p+"from", p+"to", time.Second)
	require.False(t, ok)
	requireUncertain(t, err)

	payload, ok, err := waiter.Wait(t.Context(), p+"from", p+"to", time.Second)
	require.Equal(t, waited{"second", true, nil}, waited{payload, ok, err})
	require.Equal(t, []any{"second", "first"}, get(t, client, "LRANGE", p+"to", "0", "-1"))
	require.Equal(t, 2, proxy.Count("BLMOVE"))
}

func aStoppedServerCannotHold(t *testing.T, w *world) {
	server := drivertest.Start(t)
	client := w.open(t, server.Addr())
	waiter, fresh := w.waiter(t, client), w.waiter(t, client)
	waitInVain(t, waiter, "from", "to", 10*time.Millisecond)

	server.Stop()
	const limit = 200 * time.Millisecond
	start := time.Now()
	_, _, err := waiter.Wait(t.Context(), "from", "to", limit)
	requireUncertain(t, err)
	require.Less(t, time.Since(start), limit+patience)

	start = time.Now()
	_, _, err = fresh.Wait(t.Context(), "from", "to", limit)
	require.Error(t, err)
	require.Less(t, time.Since(start), limit+patience, "also one that has yet to shake hands")

	server.Cont()
	get(t, client, "DEL", "to")
	get(t, client, "LPUSH", "from", "job")
	for _, again := range []driver.Waiter{waiter, fresh} {
		payload, ok, err := again.Wait(t.Context(), "from", "from", time.Second)
		require.Equal(t, waited{"job", true, nil}, waited{payload, ok, err})
	}
}

func anIdleWaiter(t *testing.T, w *world) {
	server := drivertest.Start(t)
	client := w.open(t, server.Addr())
	waiter := w.waiter(t, client)
	for round := range 5 {
		waitInVain(t, waiter, "from", "to", 10*time.Millisecond)
		_, err := server.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal")
		require.NoError(t, err)
		get2(t, client, "LPUSH", "from", strconv.Itoa(round))
		payload, ok, err := waiter.Wait(t.Context(), "from", "to", time.Second)
		if err != nil { // honest, if it did not notice in time
			payload, ok, err = waiter.Wait(t.Context(), "from", "to", time.Second)
		}
		require.Equal(t, waited{strconv.Itoa(round), true, nil}, waited{payload, ok, err})
	}
}

func aReleaseAfterABreak(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	waiter := w.waiter(t, client)
	for range 5 {
		waitInVain(t, waiter, p+"from", p+"to", 10*time.Millisecond)
		proxy.CloseConns()
		for {
			outcome := wait(t, waiter, p+"from", p+"to", 10*time.Second)
			if got := released2(t, waiter, outcome); got.err == nil { // an error is honest, if it did not notice in time
				require.Equal(t, waited{}, got)
				break
			}
		}
	}
}

// released2 is released while the client's own connection may be broken too.
func released2(t *testing.T, waiter driver.Waiter, outcome <-chan waited) waited {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		_, _ = waiter.Release(t.Context()) // an error here is the broken connection's; the next attempt has another
		select {
		case got := <-outcome:
			return got
		case <-time.After(time.Millisecond):
		}
	}
	t.Fatal("the Wait was not released")
	return waited{}
}

// get2 is get on a connection that may have been closed meanwhile: one failure is allowed.
func get2(t *testing.T, client driver.Client, words ...string) {
	t.Helper()
	if reply := client.Do(t.Context(), driver.Command(words...))[0]; reply.Err != nil {
		get(t, client, words...)
	}
}

func closingEndsAWait(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	waiter := w.waiter(t, client)
	arrived := faultproxy.NewGate()
	arrived.Open()
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "BLMOVE", Do: faultproxy.Hold(arrived)})
	outcome := wait(t, waiter, p+"from", p+"to", time.Minute)
	<-arrived.Arrived()
	require.NoError(t, waiter.Close())
	requireUncertain(t, come(t, outcome).err)
	require.NoError(t, waiter.Close())
	_, _, err := waiter.Wait(t.Context(), p+"from", p+"to", time.Second)
	requireNotSent(t, err)
}

func waitsDelayNoOtherCalls(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	const waiters = 50
	outcomes := make([]<-chan waited, waiters)
	for i := range outcomes {
		outcomes[i] = wait(t, w.waiter(t, client), p+strconv.Itoa(i), p+"to", time.Minute)
	}
	drivertest.Eventually(t, func() bool { return proxy.Count("BLMOVE") == waiters }, patience, 5*time.Millisecond)
	require.Equal(t, "PONG", client.Do(within(t, patience), driver.Command("PING"))[0].Value)
	for i := range outcomes {
		get(t, client, "LPUSH", p+strconv.Itoa(i), "job")
	}
	for _, outcome := range outcomes {
		require.Equal(t, waited{"job", true, nil}, come(t, outcome))
	}
}
