package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// declaredBy is how long after the clock was set every process would be declared dead by a process that takes
// the change for time that has passed: a beat until the first look, two more until the second, and a beat's
// delay.
const declaredBy = 7 * time.Second

// steadfast are two workers, one with each client, and ten jobs that outlast all that happens.
type steadfast struct {
	*site
	book    *ledger
	workers []*process
	jids    []string
}

func newSteadfast(t *testing.T, clock *wallClock) *steadfast {
	t.Helper()
	l := &steadfast{site: newSite(t, clock.server), book: newLedger(t)}
	for n := range 10 {
		l.jids = append(l.jids, l.push("Long", "default", jsonArgs(n, 40_000)))
	}
	for _, client := range []string{"go-redis", "rueidis"} {
		l.client = client
		l.workers = append(l.workers, l.work("-c", "5", "--exec", l.book.exec("Long")))
	}
	for _, jid := range l.jids {
		l.book.awaitStart(jid, 1)
	}
	return l
}

// undisturbed waits until the clock's change would have shown.
func (l *steadfast) undisturbed(since time.Time) {
	l.t.Helper()
	time.Sleep(time.Until(since.Add(declaredBy))) // in this span nothing must happen
	l.requireOneSession()
}

func (l *steadfast) requireOneSession() {
	l.t.Helper()
	require.Len(l.t, l.book.starts(""), len(l.jids), "run again without a cause")
	for _, w := range l.workers {
		require.Len(l.t, w.identities(), 1)
		require.False(l.t, w.says("recovered"), "living processes were declared dead")
	}
}

func (l *steadfast) settled() {
	l.t.Helper()
	for _, jid := range l.jids {
		l.book.awaitEnd(jid)
	}
	eventually(l.t, "all to be settled", func() bool { return l.text(l.keys.Processed()) == "10" })
	l.requireOneSession()
	for _, w := range l.workers {
		require.False(l.t, w.says("ownership lost"))
	}
	require.Empty(l.t, l.set(l.keys.Retry()))
	require.Empty(l.t, l.text(l.keys.Failed()))
}

// A routine is an idle worker that short jobs come to, at once and for later, and one that fails.
type routine struct {
	*site
	clock  *wallClock
	book   *ledger
	proxy  *faultproxy.Proxy
	worker *process
	count  int // jobs that were pushed

	inHalfAnHour, soon, failing string
}

func newRoutine(t *testing.T, clock *wallClock, client string) *routine {
	t.Helper()
	e := &routine{site: newSite(t, clock.server), clock: clock, book: newLedger(t), proxy: faultproxy.New(t, clock.server.Addr())}
	e.client = client
	e.worker = e.by(e.proxy.URL()).work("--exec", e.book.exec("Short"), "--exec", e.book.exec("Failing", "-fail", "as asked"))
	return e
}

// later pushes a job for later.
func (e *routine) later(in string) (jid string) {
	e.t.Helper()
	out, errs, status := e.belay("push", "Short", "--in", in)
	require.Zero(e.t, status, errs)
	e.count++
	return strings.TrimSpace(out)
}

// onTime runs a job at once, and one in a second, which is not early by Redis' clock and not late either.
func (e *routine) onTime() {
	e.t.Helper()
	pushed := time.Now()
	now, soon := e.push("Short", "default", jsonArgs(1, 0)), newJID()
	due := e.clock.now().Add(time.Second).Truncate(time.Millisecond)
	e.do("ZADD", e.keys.Schedule(), strconv.FormatFloat(float64(due.UnixMicro())/1e6, 'f', 6, 64), rubyPayload("Short", "default", jsonArgs(1, 0), soon))
	e.count += 2
	e.t.Logf("%s: picked up after %v", e.client, e.book.awaitStart(now, 1).At.Sub(pushed))
	began := e.clock.at(e.book.awaitStart(soon, 1).At)
	e.t.Logf("%s: late by %v", e.client, began.Sub(due))
	require.GreaterOrEqual(e.t, began, due, "early by Redis' clock")
}

// failsTwice pushes a job that fails, is retried once, and dies of that.
func (e *routine) failsTwice() (jid string) {
	e.t.Helper()
	jid = newJID()
	e.do("LPUSH", e.keys.Queue("default"), strings.Replace(rubyPayload("Failing", "default", jsonArgs(1, 0), jid), `"retry":true`, `"retry":1`, 1))
	e.count++
	return jid
}

// waitsEnd makes sure that an idle wait ends in time although Redis, which times it by the clock that was set
// back, would hold it for an hour.
func (e *routine) waitsEnd() {
	e.t.Helper()
	before := e.proxy.Count("BLMOVE")
	eventually(e.t, "an idle wait to end and another to begin", func() bool { return e.proxy.Count("BLMOVE") > before })
}

func (e *routine) settled() {
	e.t.Helper()
	const retries = 1 // of the one that fails
	eventually(e.t, "all to be counted", func() bool { return e.text(e.keys.Processed()) == fmt.Sprint(e.count+retries) })
	require.Len(e.t, e.book.starts(""), e.count+retries)
	require.Equal(e.t, "2", e.text(e.keys.Failed()))
	require.Empty(e.t, e.set(e.keys.Retry()))
	require.Len(e.t, e.set(e.keys.Dead()), 1)
	require.Empty(e.t, e.set(e.keys.Schedule()))
	require.False(e.t, e.worker.says("ownership lost"))
}

// bereaved are two workers, of whom the first, which has a job in hand and leads in all duties of the
// fleet, is killed.
type bereaved struct {
	*site
	book             *ledger
	victim, survivor *process
	jid              string
	killedAt         time.Time
}

func newBereaved(t *testing.T, clock *wallClock, client string) *bereaved {
	t.Helper()
	b := &bereaved{site: newSite(t, clock.server), book: newLedger(t)}
	b.client = client
	b.victim = b.work("--exec", b.book.exec("Short"))
	b.jid = b.push("Short", "default", jsonArgs(1, 10_000))
	b.book.awaitStart(b.jid, 1)
	eventually(t, "the first worker to lead", func() bool { return b.led(b.victim) })
	b.survivor = b.work("--exec", b.book.exec("Short"))
	return b
}

// led is whether a worker has the leases of all duties of the fleet.
func (b *bereaved) led(by *process) bool {
	b.t.Helper()
	me := by.identities()[0]
	return b.text(b.keys.Poller()) == me && b.text(b.keys.Sweeper()) == me
}

func (b *bereaved) kill() {
	b.t.Helper()
	b.killedAt = time.Now()
	b.victim.kill()
}

// recovered waits until the job runs again, in time.
func (b *bereaved) recovered() {
	b.t.Helper()
	again := b.book.awaitStart(b.jid, 2)
	b.t.Logf("%s: ran again %v after the kill", b.client, again.At.Sub(b.killedAt))
	require.Less(b.t, again.At.Sub(b.killedAt), recovery)
	require.Equal(b.t, b.survivor.pid, again.Worker)
}

// inherited makes sure that what the dead worker led in has gone to the survivor, whatever the clock says of
// its leases.
func (b *bereaved) inherited() {
	b.t.Helper()
	eventually(b.t, "the survivor to lead", func() bool { return b.led(b.survivor) })
	b.t.Logf("%s: the survivor leads %v after the kill", b.client, time.Since(b.killedAt))
	require.Less(b.t, time.Since(b.killedAt), recovery)
}

func (b *bereaved) settled() {
	b.t.Helper()
	b.book.awaitEnd(b.jid)
	eventually(b.t, "the job to be settled", func() bool { return b.text(b.keys.Processed()) == "1" })
	require.Len(b.t, b.book.starts(""), 2)
	require.Empty(b.t, b.set(b.keys.Retry()))
}
