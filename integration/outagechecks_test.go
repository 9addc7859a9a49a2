package integration

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// A tally is what has been asked of Redis and how often it was dialled.
type tally struct{ commands, connections int }

func (a tally) since(b tally) tally {
	return tally{a.commands - b.commands, a.connections - b.connections}
}

// tally counts what goes through the proxy. What a client says when it has connected belongs to connecting.
func (o *outage) tally() tally {
	if o.kind.direct {
		return tally{}
	}
	count := tally{connections: o.proxy.Accepted()}
	for name, sent := range o.proxy.Counts() {
		if name != "HELLO" && name != "PING" {
			count.commands += sent
		}
	}
	return count
}

// turnedAway is how many connections the server has not accepted so far.
func (o *outage) turnedAway() int {
	o.t.Helper()
	stats := regexp.MustCompile(`rejected_connections:(\d+)`).FindStringSubmatch(fmt.Sprint(o.order("INFO", "stats")))
	require.Len(o.t, stats, 2)
	count, err := strconv.Atoi(stats[1])
	require.NoError(o.t, err)
	return count
}

// awaitBeat waits until the worker counts as alive.
func (o *outage) awaitBeat() {
	o.t.Helper()
	identity := o.worker.identities()[0]
	eventually(o.t, "a heartbeat", func() bool {
		expiry, _ := o.s.do("ZSCORE", o.s.keys.Alive(), identity).(string)
		ms, _ := strconv.ParseFloat(expiry, 64)
		return time.UnixMilli(int64(ms)).After(time.Now())
	})
}

func (o *outage) requireEachOnce(jids []string) {
	o.t.Helper()
	for _, jid := range jids {
		o.book.awaitEnd(jid)
	}
	eventually(o.t, "all to be settled", func() bool { return o.s.text(o.s.keys.Processed()) == strconv.Itoa(len(jids)) })
	require.Contains(o.t, []string{"", "0"}, o.s.text(o.s.keys.Failed()))
	require.Empty(o.t, o.s.set(o.s.keys.Retry()))
	require.Empty(o.t, o.s.set(o.s.keys.Dead()))
	require.Empty(o.t, o.s.list(o.s.keys.Working("default", o.worker.identities()[0])))
	require.Len(o.t, o.book.starts(""), len(jids), "each once")
	require.Len(o.t, o.book.ends(""), len(jids))
}

// requireNothingBegun holds that no job was started after the lease was over: a TTL without a confirmed beat,
// less one beat. pushAt leaves what was begun just before the time to become a program.
func (o *outage) requireNothingBegun() {
	o.t.Helper()
	for _, start := range o.book.starts("") {
		require.False(o.t, start.At.After(o.began.Add(pushAt)) && start.At.Before(o.ended), "%s was started %v into the outage of %v",
			start.JID, start.At.Sub(o.began), o.ended.Sub(o.began))
	}
}

// requireModest holds that the outage costs neither us nor Redis much: 2 % of a core, and, once it has been
// noticed, ten commands and as many connections a second. Beats are more than twice as fast here as they are by
// default.
func (o *outage) requireModest(span, used time.Duration, sent tally) {
	o.t.Helper()
	o.t.Logf("away for %v: CPU time %v; then %d commands on %d new connections, %d turned away", span.Round(time.Millisecond), used,
		sent.commands, sent.connections, o.rejected)
	if os.Getenv("BELAY_RACE") == "" { // the detector costs several times as much
		require.Less(o.t, used, span/50)
	}
	// One pass of every duty more: they may all have begun in the same second.
	most := int(10*(span-outageNoticed).Seconds()) + 10
	if o.kind.reads {
		require.Less(o.t, sent.commands, 2*most) // with the default's beats it is within the bound here, too
	} else {
		require.Less(o.t, sent.commands, most)
	}
	require.Less(o.t, sent.connections, most)
	require.Less(o.t, o.rejected, int(10*span.Seconds())+10)
}

var blink = regexp.MustCompile(`(?s)^[^\n]*"message":"redis is away[^\n]*\n[^\n]*"away_ms":\d{1,2}(\.\d+)?,[^\n]*"message":"redis is back"}\n`)

// withoutBlink is the log without an outage of less than 0.1 s at its beginning: a reply that was on its way may
// end what a closed connection began.
func withoutBlink(log string) string { return blink.ReplaceAllString(log, "") }

// sinceKnown is the log since the worker knows that Redis is away, and in what way. Before, a reply that was on its
// way may end what a closed connection began.
func (o *outage) sinceKnown(log string) string {
	if o.kind.denied {
		_, after, _ := strings.Cut(log, "redis denies access")
		return after
	}
	return withoutBlink(log)
}

// untilBack is the log until it has said that the outage is over: length is how long it was when Redis was back. What
// comes later is a busy machine's.
func (o *outage) untilBack(log string, length int) string {
	if strings.Contains(o.sinceKnown(log[:length]), "redis is back") {
		return log[:length]
	}
	before, after, _ := strings.Cut(log[length:], "redis is back")
	line, _, _ := strings.Cut(after, "\n")
	return log[:min(length+len(before)+len("redis is back")+len(line)+1, len(log))]
}

// requireTold holds that the outage has one line, its end another, and that there is hardly anything else to
// read. length is how long the log was when Redis was back.
func (o *outage) requireTold(log string, length int) {
	o.t.Helper()
	require.NotContains(o.t, log, "ownership lost")
	require.NotContains(o.t, log, "redis refuses a call")
	log = o.untilBack(log, length)
	since := o.sinceKnown(log)
	if o.kind.denied {
		before, after, denied := strings.Cut(log, "redis denies access")
		require.True(o.t, denied, log)
		require.NotContains(o.t, after, "redis denies access")
		away := strings.Count(before, "redis is away")
		require.LessOrEqual(o.t, away+strings.Count(after, "redis is away"), 1, log)
		require.LessOrEqual(o.t, strings.Count(before, "redis is back"), away, log)
	} else {
		require.Equal(o.t, 1, strings.Count(since, "redis is away"), log)
		require.NotContains(o.t, log, "operator action required")
	}
	require.Equal(o.t, 1, strings.Count(since, "redis is back"), log)
	require.LessOrEqual(o.t, strings.Count(log, "\n"), 8, log)
}
