package integration

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

const (
	// A lease is long enough for a busy machine, and over well within an outage.
	outageBeat, outageTTL = 600 * time.Millisecond, 2400 * time.Millisecond
	// outageSpan is how long Redis is away, and pushAt when in it others push a job, where they can.
	outageSpan, pushAt = 4200 * time.Millisecond, 2800 * time.Millisecond
	// outageNoticed is how long it takes until every part of a process has noticed, and failed a few times.
	outageNoticed = time.Second
	// resumed bounds the time until work goes on when Redis is back. Five seconds are promised, of which a rest takes
	// two at most (link.MaxRest); a busy machine may need many more to start a job.
	resumed = 20 * time.Second
	// outagesAtOnce is how many outages happen side by side. They are mostly waiting.
	outagesAtOnce = 8
)

// An outage is one run of a worker during which Redis is away for a while.
type outage struct {
	t      *testing.T
	s      *site
	server *drivertest.Server
	proxy  *faultproxy.Proxy
	admin  driver.Client
	kind   outageKind
	book   *ledger
	worker *process
	// within is a job that runs when the outage begins, and ends while it lasts.
	within string
	// Redis was away at least from began to ended.
	began, ended time.Time
	// meanwhile are jobs pushed by others while the worker does not see Redis.
	meanwhile []string
	// rejected is how many connections the server has turned away meanwhile, where it was asked.
	rejected int
	// sent is what went through the proxy until the end of the outage, where away knows it.
	sent *tally
}

// Whatever way Redis is away: no client storms it, one line says so and one that it is back, running jobs go
// on, their ends are kept, nothing new is begun, everything resumes, no job runs twice and none counts as
// failed.
//
// Nothing else runs meanwhile: leases are short here, and a machine that is busy with other tests must not end
// one.
func TestOutages(t *testing.T) {
	slots := make(chan struct{}, outagesAtOnce)
	var running sync.WaitGroup
	for name, kind := range outageKinds {
		for _, client := range []string{"go-redis", "rueidis"} {
			// Not parallel in the sense of testing, which would run two at once on two cores.
			running.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				t.Run(name+"/"+client, func(t *testing.T) { newOutage(t, kind, client).pass() })
			})
		}
	}
	running.Wait()
}

func newOutage(t *testing.T, kind outageKind, client string) *outage {
	t.Helper()
	server, dir := recorded(t, kind.args...)
	t.Cleanup(func() { judge(t, server, dir) })
	o := &outage{t: t, kind: kind, server: server, book: newLedger(t)}
	o.s = newSite(t, o.server)
	o.s.client = client
	o.proxy = faultproxy.New(t, o.server.Addr())
	if !kind.direct {
		o.s = o.s.by(o.proxy.URL())
	}
	o.admit()
	if kind.prepare != nil {
		kind.prepare(o)
	}
	o.worker = o.s.work("-c", "3", "--heartbeat", outageBeat.String(), "--ttl", outageTTL.String(), "--exec", o.book.exec("Any"))
	// Its look at the settings of Redis, a dozen commands, belongs to its start and not to the outage. The user of a
	// worker sees no settings, only the INFO.
	look := "CONFIG"
	if drivertest.Roles() {
		look = "INFO"
	}
	eventually(t, "the end of that look", func() bool { return kind.direct || o.proxy.Counts()[look] > 0 && o.proxy.Counts()["PING"] > 0 })
	return o
}

// pass goes through the outage with jobs that end within and after it, one that is due within it, and one
// processor idle.
func (o *outage) pass() {
	t := o.t
	o.within = o.s.push("Any", "default", jsonArgs(1, 2000))
	beyond := o.s.push("Any", "default", jsonArgs(2, 5500))
	o.book.awaitStart(o.within, 1)
	o.book.awaitStart(beyond, 1)
	eventually(t, "the idle processor to wait", func() bool { return strings.Contains(fmt.Sprint(o.s.do("INFO", "clients")), "blocked_clients:1") })
	var log string
	eventually(t, "the end of any outage that is only a busy machine", func() bool {
		log = o.worker.log()
		return strings.Count(log, "redis is away") == strings.Count(log, "redis is back")
	})
	due := o.s.schedule("Any", 1500*time.Millisecond)

	logged, used := len(log), cpuTime(t, o.worker.pid)
	from := time.Now()
	noticed := make(chan tally, 1)
	time.AfterFunc(outageNoticed, func() { noticed <- o.tally() })
	o.kind.away(o)
	back, told := time.Now(), len(o.worker.log())
	used = cpuTime(t, o.worker.pid) - used
	if o.sent == nil {
		sent := o.tally()
		o.sent = &sent
	}
	o.requireModest(back.Sub(from), used, o.sent.since(<-noticed))

	fresh := o.s.push("Any", "default", jsonArgs(3, 0))
	for _, jid := range append([]string{fresh, due}, o.meanwhile...) {
		require.Less(t, o.book.awaitStart(jid, 1).At.Sub(back), resumed, "the start of a job")
	}
	o.awaitBeat()
	eventually(t, "it to say so", func() bool { return strings.Contains(o.worker.log()[logged:], "redis is back") })
	o.requireEachOnce(append([]string{o.within, beyond, due, fresh}, o.meanwhile...))
	o.requireNothingBegun()
	o.requireTold(o.worker.log()[logged:], told-logged)
	require.Len(t, o.worker.identities(), 1, "the worker was not declared dead")
}

// last is the time that the outage lasts: until a running job has ended, which goes on.
func (o *outage) last() {
	o.began = time.Now()
	time.Sleep(pushAt)
	if o.kind.others {
		o.meanwhile = append(o.meanwhile, o.s.push("Any", "default", jsonArgs(4, 0)))
	}
	time.Sleep(outageSpan - pushAt)
	o.book.awaitEnd(o.within)
	o.ended = time.Now()
}

// schedule stores a job for later as Ruby would, and answers its jid.
func (s *site) schedule(class string, in time.Duration) string {
	s.t.Helper()
	jid := newJID()
	at := strconv.FormatFloat(float64(time.Now().Add(in).UnixMicro())/1e6, 'f', 6, 64)
	s.do("ZADD", s.keys.Schedule(), at, rubyPayload(class, "default", jsonArgs(0, 0), jid))
	return jid
}

// A Redis that is full is not away: its worker goes on, and says once what is wrong.
func TestFullRedisIsReportedOnce(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			s, book := ordinarySite(t), newLedger(t)
			s.client = client
			worker := s.work("-c", "2", "--exec", book.exec("Any"))
			eventually(t, "the worker to wait", func() bool { return strings.Contains(fmt.Sprint(s.do("INFO", "clients")), "blocked_clients:1") })
			due := s.schedule("Any", 500*time.Millisecond)
			s.do("CONFIG", "SET", "maxmemory", "1")
			book.awaitEnd(due)
			worker.awaitLog("OOM command not allowed")
			time.Sleep(5 * time.Second) // in which waits are tried again, and refused
			require.Equal(t, 1, strings.Count(worker.log(), "OOM command not allowed"), worker.log())
			s.do("CONFIG", "SET", "maxmemory", "0")
			book.awaitEnd(s.push("Any", "default", jsonArgs(1, 0)))
			require.NotContains(t, worker.log(), "redis is away")
			eventually(t, "both to be counted", func() bool { return s.text(s.keys.Processed()) == "2" })
		})
	}
}
