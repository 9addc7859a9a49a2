package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// An outageKind is one way in which Redis can be away.
type outageKind struct {
	// args are the server's.
	args []string
	// direct says that the worker reaches the server without the proxy: it is the server's own bearing towards
	// connections that matters.
	direct bool
	// reads says that Redis still answers what only reads, so that a duty comes as far as to the write that is
	// refused.
	reads bool
	// denied says that the log reports an error, and not only an outage.
	denied bool
	// others says that others reach the server meanwhile, and push jobs.
	others bool
	// prepare, if set, comes before the worker.
	prepare func(o *outage)
	// away begins the outage, calls last, and ends it.
	away func(o *outage)
}

var persistent = []string{"--appendonly", "yes", "--appendfsync", "always"}

// outageKinds are all of them, but a Redis that is full: that is none.
var outageKinds = map[string]outageKind{
	"stopped": {away: frozen},
	// The kernel has no room for more connections to it: even connecting hangs.
	"stopped and deaf":      {direct: true, args: []string{"--tcp-backlog", "1"}, away: frozen},
	"killed":                {direct: true, args: persistent, away: killed},
	"killed behind a proxy": {args: persistent, away: killed},
	"behind a black hole":   {others: true, away: cut(faultproxy.Requests, faultproxy.Blackhole())},
	"half open, unreceived": {others: true, away: cut(faultproxy.Requests, faultproxy.HalfOpen())},
	"half open, unanswered": {others: true, away: cut(faultproxy.Replies, faultproxy.HalfOpen())},
	// A key takes a millisecond to load, and clients are answered every kilobyte.
	"loading": {args: append([]string{"--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"}, persistent...),
		prepare: fill, away: loading},
	"a replica":       {away: demoted},
	"a stale replica": {args: []string{"--replica-serve-stale-data", "no"}, away: demoted},
	"busy":            {args: []string{"--lua-time-limit", "100"}, away: busy},
	"locked":          {denied: true, away: locked},
	"full of clients": {direct: true, away: fullOfClients},
	// Redis answers, and writes nothing until there is room for its snapshots.
	"out of disk":       {reads: true, away: diskless},
	"short of replicas": {reads: true, away: bereft},
}

func frozen(o *outage) {
	o.server.Stop()
	o.last()
	o.server.Cont()
}

func killed(o *outage) {
	o.server.Kill()
	o.last()
	o.server.Restart(o.t)
}

// cut does something to every frame of a direction. What it has done to a connection lasts; new ones are good
// again.
func cut(on faultproxy.Direction, do faultproxy.Action) func(*outage) {
	return func(o *outage) {
		o.proxy.Add(faultproxy.Rule{On: on, Do: do})
		o.last()
		o.proxy.Clear()
	}
}

// fill stores as many keys as take a while to load.
func fill(o *outage) {
	o.order("DEBUG", "POPULATE", "3500", "filler", "200")
	o.order("BGREWRITEAOF") // in the form of a snapshot: a log's commands are loaded a thousand at once
	eventually(o.t, "the snapshot", func() bool {
		info, _ := o.order("INFO", "persistence").(string)
		return strings.Contains(info, "aof_rewrite_in_progress:0") && !strings.Contains(info, "aof_last_rewrite_time_sec:-1")
	})
}

// loading lasts as long as the server takes to load, which it answers to every call.
func loading(o *outage) {
	o.server.Kill()
	o.began = time.Now()
	saw := make(chan struct{})
	loaded, cancel := context.WithCancel(o.t.Context())
	go func() {
		defer close(saw)
		for loaded.Err() == nil {
			asked, sent := time.Now(), o.tally()
			if _, err := o.server.Do(loaded, "GET", "x"); err != nil && strings.HasPrefix(err.Error(), "LOADING") {
				// What happens once it has loaded, and before this test notices, is not of the outage.
				o.ended, o.sent = asked, &sent
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	o.server.Restart(o.t)
	cancel()
	<-saw
	require.NotNil(o.t, o.sent, "the server loaded too fast for a client to notice")
}

// demoted makes the server a replica of no server, and again what it was.
func demoted(o *outage) {
	o.order("REPLICAOF", "127.0.0.1", "1")
	o.last()
	o.order("REPLICAOF", "NO", "ONE")
}

func busy(o *outage) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = o.server.Do(context.WithoutCancel(o.t.Context()), "EVAL", "while true do end", "0")
	}()
	o.last()
	o.s.do("SCRIPT", "KILL")
	<-ended
}

// locked asks for a password that the worker does not have, or, of a worker that runs as a user of its own, accepts its
// password no more. A connected client stays connected, hence none may be.
func locked(o *outage) {
	lock, unlock := []string{"CONFIG", "SET", "requirepass", "secret"}, []string{"CONFIG", "SET", "requirepass", ""}
	if user := o.s.users[check.RoleWorker]; user != "" {
		require.Empty(o.t, o.s.users.denied(o.server))
		defer o.order("ACL", "LOG", "RESET") // refused logins are what this is about
		lock, unlock = []string{"ACL", "SETUSER", user, "off"}, []string{"ACL", "SETUSER", user, "on"}
	}
	o.order(lock...)
	o.order("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	o.last()
	o.order(unlock...)
}

// fullOfClients lets no client connect any more.
func fullOfClients(o *outage) {
	o.order("CONFIG", "SET", "maxclients", "1")
	o.order("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	before := o.turnedAway()
	o.last()
	o.rejected = o.turnedAway() - before
	o.order("CONFIG", "SET", "maxclients", "10000")
}

// diskless has a snapshot fail, which stands for all reasons not to write.
func diskless(o *outage) {
	answer, _ := o.order("CONFIG", "GET", "dir").([]any)
	inTheWay := filepath.Join(texts(answer)[1], "dump.rdb")
	require.NoError(o.t, os.Mkdir(inTheWay, 0o700))
	o.order("CONFIG", "SET", "save", "3600 1000000") // without a plan to save no write is refused
	o.order("BGSAVE")
	eventually(o.t, "the snapshot to fail", func() bool {
		info, _ := o.order("INFO", "persistence").(string)
		return strings.Contains(info, "rdb_last_bgsave_status:err")
	})
	o.last()
	o.order("CONFIG", "SET", "save", "")
	require.NoError(o.t, os.Remove(inTheWay))
}

// bereft asks for a replica where there is none.
func bereft(o *outage) {
	o.order("CONFIG", "SET", "min-replicas-to-write", "1")
	o.last()
	o.order("CONFIG", "SET", "min-replicas-to-write", "0")
}

// admit opens the connection that order uses, which outlives every outage that leaves the server alive.
func (o *outage) admit() {
	client, err := goredisdriver.Open(o.server.URL())
	require.NoError(o.t, err)
	o.t.Cleanup(func() { _ = client.Close() })
	o.admin, err = client.Lane(1)
	require.NoError(o.t, err)
	o.t.Cleanup(func() { _ = o.admin.Close() })
}

// order sends one command on a connection that was there before.
func (o *outage) order(words ...string) any {
	o.t.Helper()
	reply := o.admin.Do(context.Background(), driver.Command(words...))[0]
	require.NoError(o.t, reply.Err, words)
	return reply.Value
}
