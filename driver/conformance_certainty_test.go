package driver_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/internal/drivertest/relay"
)

var certaintyPromises = []promise{
	{name: "a_lost_reply_is_uncertain_and_executed_once", keep: aLostReply},
	{name: "a_lost_request_is_uncertain_and_never_sent_again", keep: aLostRequest},
	{name: "every_call_of_a_pipeline_is_executed_once", keep: aLostReplyInAPipeline},
	{name: "replies_before_the_cut_are_kept", keep: answersBeforeTheCut},
	{name: "replies_before_the_deadline_are_kept", keep: answersBeforeTheDeadline},
	{name: "a_missed_deadline_is_uncertain_and_the_next_call_works", keep: aMissedDeadline},
	{name: "a_refused_dial_is_not_sent", keep: aRefusedDial},
	{name: "a_server_that_is_not_redis_receives_nothing", keep: noRedis, anyKind: true},
	{name: "an_ended_context_sends_nothing", keep: aContextThatIsOver},
	{name: "a_deadline_ends_a_call_to_a_stopped_server", keep: aStoppedServer, fake: noSignals},
}

func aLostReply(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	script := counting(p, "once")
	run := driver.Call{Script: script, Keys: []string{p + "n"}, Args: []string{p + "mark"}}
	require.Equal(t, []driver.Reply{{Value: int64(1)}}, client.Do(t.Context(), run))

	proxy.Add(faultproxy.DropReply(p + "mark"))
	requireUncertain(t, client.Do(t.Context(), run)[0].Err)
	require.Equal(t, "2", get(t, client, "GET", p+"n"))

	proxy.Add(faultproxy.DropReply(p + "plain"))
	requireUncertain(t, client.Do(t.Context(), driver.Command("INCR", p+"plain"))[0].Err)
	require.Equal(t, "1", get(t, client, "GET", p+"plain"))

	proxy.Add(faultproxy.DropReply(p + "first"))
	requireUncertain(t, w.open(t, proxy.Addr()).Do(t.Context(), driver.Command("INCR", p+"first"))[0].Err)
	require.Equal(t, "1", get(t, client, "GET", p+"first"), "also what follows the handshake at once")
}

func aLostRequest(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	require.Equal(t, "PONG", get(t, client, "PING"))

	proxy.Add(faultproxy.DropRequest(p + "n"))
	requireUncertain(t, client.Do(t.Context(), driver.Command("INCR", p+"n"))[0].Err)
	require.Equal(t, 1, proxy.Count("INCR"))
	require.Nil(t, get(t, client, "GET", p+"n"))
}

func aLostReplyInAPipeline(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	script := counting(p, "each")
	calls := []driver.Call{
		{Script: script, Keys: []string{p + "a"}}, {Script: script, Keys: []string{p + "b"}}, {Script: script, Keys: []string{p + "c"}},
	}
	client.Do(t.Context(), calls...) // known from here on

	gate := faultproxy.NewGate()
	proxy.Add(
		faultproxy.Rule{On: faultproxy.Requests, Token: p + "c", Nth: 1, Do: faultproxy.Hold(gate)}, // all three have left
		faultproxy.DropReply(p+"a"),
	)
	gate.Open()
	for _, reply := range client.Do(t.Context(), calls...) {
		requireUncertain(t, reply.Err)
	}
	require.Equal(t, "2", get(t, client, "GET", p+"a"))
	for _, key := range []string{p + "b", p + "c"} {
		require.Contains(t, []any{"1", "2"}, get(t, client, "GET", key), "the cut may have come before it, or not")
	}
}

func answersBeforeTheCut(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	require.Equal(t, "PONG", get(t, client, "PING"))

	proxy.Add(faultproxy.DropReply(p + "b"))
	replies := client.Do(t.Context(),
		driver.Command("INCR", p+"a"), driver.Command("INCR", p+"b"), driver.Command("INCR", p+"c"))
	require.Equal(t, driver.Reply{Value: int64(1)}, replies[0])
	requireUncertain(t, replies[1].Err)
	requireUncertain(t, replies[2].Err)
	require.Equal(t, "1", get(t, client, "GET", p+"b"))
	require.NotEqual(t, "2", get(t, client, "GET", p+"c"))
}

func answersBeforeTheDeadline(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	require.Equal(t, "PONG", get(t, client, "PING"))

	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p + "b", Nth: 1, Do: faultproxy.Hold(faultproxy.NewGate())})
	replies := client.Do(within(t, 5*time.Second), // in which a busy machine answers, too
		driver.Command("INCR", p+"a"), driver.Command("INCR", p+"b"), driver.Command("INCR", p+"c"))
	require.Equal(t, driver.Reply{Value: int64(1)}, replies[0])
	requireUncertain(t, replies[1].Err)
	requireUncertain(t, replies[2].Err)
}

func aMissedDeadline(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	require.Equal(t, "PONG", get(t, client, "PING"))

	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p + "n", Nth: 1, Do: faultproxy.Blackhole()})
	start := time.Now()
	err := client.Do(within(t, 3*time.Second), driver.Command("INCR", p+"n"))[0].Err
	require.Less(t, time.Since(start), patience)
	requireUncertain(t, err)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, "1", get(t, client, "GET", p+"n"), "the connection that was silent is not used again")
}

func aRefusedDial(t *testing.T, w *world) {
	client := w.open(t, drivertest.FreeAddr(t))
	waiter := w.waiter(t, client)
	lane := w.lane(t, client, 1)
	for range 20 { // as often as it is asked: a pool may treat the eleventh otherwise
		requireNotSent(t, client.Do(t.Context(), driver.Command("PING"))[0].Err)
		requireNotSent(t, lane.Do(t.Context(), driver.Command("PING"), driver.Command("PING"))[1].Err)
		_, _, err := waiter.Wait(t.Context(), "a", "b", time.Second)
		requireNotSent(t, err)
		require.True(t, driver.Outage(err))
	}
}

// noRedis checks that a client whose handshake is not answered has sent none of its calls, and reports that.
func noRedis(t *testing.T, w *world) {
	for name, answer := range map[string]string{"closes": "", "speaks HTTP": "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "is silent": "silence"} {
		client := w.open(t, relay.Serve(t, func(conn net.Conn) { serveNoRedis(conn, answer) }).Addr())
		waiter := w.waiter(t, client)
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				for _, reply := range client.Do(within(t, time.Second), driver.Command("PING"), driver.Command("INCR", "n")) {
					var unsent *driver.NotSentError
					assert.ErrorAs(t, reply.Err, &unsent, name)
					assert.True(t, driver.Outage(reply.Err))
				}
			})
		}
		calls.Wait()
		if answer != "silence" { // a waiter would notice it only at its limit
			_, _, err := waiter.Wait(t.Context(), "a", "b", time.Second)
			requireNotSent(t, err)
		}
	}
}

// serveNoRedis answers a connection with one text and closes it, or with silence, until the client closes it.
func serveNoRedis(conn net.Conn, answer string) {
	if answer == "silence" {
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = conn.Read(make([]byte, 1<<10)) // or the end would be a reset, in which the answer is lost
	_, _ = io.WriteString(conn, answer)
}

func aContextThatIsOver(t *testing.T, w *world) {
	proxy := w.proxy(t)
	client := w.open(t, proxy.Addr())
	over, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	for _, ctx := range []context.Context{over, late} {
		err := client.Do(ctx, driver.Command("PING"))[0].Err
		requireNotSent(t, err)
		require.ErrorIs(t, err, ctx.Err())
		_, _, err = w.waiter(t, client).Wait(ctx, "a", "b", time.Second)
		requireNotSent(t, err)
	}
	require.Zero(t, proxy.Accepted())
}

func aStoppedServer(t *testing.T, w *world) {
	server := drivertest.Start(t)
	client := w.open(t, server.Addr())
	require.Equal(t, "PONG", get(t, client, "PING"))

	server.Stop()
	start := time.Now()
	requireUncertain(t, client.Do(within(t, 3*time.Second), driver.Command("INCR", "n"))[0].Err)
	require.Error(t, client.Do(within(t, time.Second), driver.Command("PING"))[0].Err, "a new connection is accepted by the kernel alone")
	require.Less(t, time.Since(start), patience)

	server.Cont()
	require.Equal(t, "1", get(t, client, "GET", "n"), "what lay in the socket was executed, once")
}
