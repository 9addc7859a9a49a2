package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/slowlink"
)

// linkPlays are what is tried with a link.
var linkPlays = map[string]func(*testing.T, linkTrial){
	"kill": killBesideALink, "due": dueBehindALink, "beside": slowBesideHealthy,
	"push": pushOverALink, "bulk": bulkOverALink, "once": pushOnceOverALink, "retry": retryOverALink, "find": findOverALink, "register": registerOverALink,
}

const (
	// inHandOnLink is a worker's default concurrency, all of it in hand.
	inHandOnLink = 25
	dueOnLink    = 60
	besideOnLink = 200

	// What a job's bytes must travel through the link one after the other. Recovered ones: the janitor reads
	// them, sends the old and the new ones, a take brings them and their settle names them. Promoted ones: the
	// poller reads them, and sends the old and the new ones. Those that run: a take brings them and their
	// settle names them.
	travelsRecovered, travelsPromoted, travelsRun = 5, 3, 2
	// Round trips of a recovery are promised. Promotion is promised no time: a page holds one job at least, and
	// is sent a round trip after it was read.
	tripsRecovered, tripsPromoted = 10, 10 + dueOnLink
	// inVain is how much more a link may carry than it must. A page that misses its deadline has travelled in
	// vain, and the next is half as large: all that travelled in vain is at most what travels then.
	inVain = 2

	// stall is how long no job may be done while there are some. A page of 4 MiB takes 4 s at 10 Mbit/s, with
	// its settle 8 s; what no process works on stays for good.
	stall = 30 * time.Second
)

// bound is within what time a link does its work: the promise for a fast link, so many round trips, and the
// time of the bytes. All of it is doubled, because the link itself is a busy machine's; what is stuck, is for good.
func (l linkTrial) bound(roundTrips, jobs, travels int) time.Duration {
	bits := int64(jobs*l.payload) * 8 * int64(travels*inVain)
	return 2 * (recovery + time.Duration(roundTrips)*l.speed.RoundTrip + time.Duration(bits*int64(time.Second)/l.speed.BitsPerSecond))
}

// site is an audited keyspace.
func (l linkTrial) site(t *testing.T) *site {
	t.Helper()
	s := newSite(t, audited(t))
	s.client = l.client
	if l.narrow {
		s.do("CONFIG", "SET", "client-output-buffer-limit", "normal 2mb 2mb 0")
	}
	return s
}

// behind starts a worker behind a link of its own.
func (l linkTrial) behind(s *site, words ...string) (*slowlink.Link, *process) {
	s.t.Helper()
	link := slowlink.New(s.t, s.server.Addr(), l.speed)
	return link, s.by(link.URL()).work(append(words, "--heartbeat", l.beat.String())...)
}

// payloads are jobs of this size, past any link.
func (l linkTrial) payloads(jobs int) []string {
	filling := strings.Repeat("x", l.payload)
	payloads := make([]string, jobs)
	for n := range payloads {
		payloads[n] = rubyPayload("Any", "default", fmt.Sprintf("[%d,%q]", n, filling), newJID())
	}
	return payloads
}

// queue pushes them.
func (s *site) queue(payloads []string) {
	s.t.Helper()
	s.do("SADD", s.keys.Queues(), "default")
	for _, payload := range payloads {
		s.do("LPUSH", s.keys.Queue("default"), payload)
	}
}

// number is an integer answer, or an integer key, which is 0 when there is none.
func (s *site) number(words ...string) int {
	s.t.Helper()
	switch answer := s.do(words...).(type) {
	case int64:
		return int(answer)
	case string:
		n, err := strconv.Atoi(answer)
		require.NoError(s.t, err)
		return n
	}
	return 0
}

// within waits until a count has reached its goal, and fails the test when that takes longer than the bound.
func within(s *site, link *slowlink.Link, bound time.Duration, goal int, count func() int) {
	s.t.Helper()
	began := time.Now()
	for ; count() < goal; time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > bound {
			up, down := link.Bytes()
			require.FailNow(s.t, "stuck", "%d of %d after %v; the link carried %.1f MB up and %.1f MB down",
				count(), goal, bound, float64(up)/1e6, float64(down)/1e6)
		}
	}
	up, down := link.Bytes()
	s.t.Logf("%d after %v, of %v; the link carried %.1f MB up and %.1f MB down", goal, time.Since(began).Round(time.Millisecond), bound,
		float64(up)/1e6, float64(down)/1e6)
}

// killBesideALink: a worker is killed with all processors busy, and the one that is left has a slow link. All
// jobs are done within the bound of the kill.
func killBesideALink(t *testing.T, l linkTrial) {
	s := l.site(t)
	s.queue(l.payloads(inHandOnLink))
	victim := s.work("--heartbeat", l.beat.String(), "--exec", "Any=sleep 3600")
	working := s.keys.Working("default", victim.identities()[0])
	eventually(t, "all jobs to be in hand", func() bool { return s.number("LLEN", working) == inHandOnLink })
	link, survivor := l.behind(s, "--exec", "Any=true")
	victim.kill()
	within(s, link, l.bound(tripsRecovered, inHandOnLink, travelsRecovered), inHandOnLink, func() int { return s.number("GET", s.keys.Processed()) })
	require.Zero(t, s.number("EXISTS", s.keys.Failed(), s.keys.Dead(), s.keys.Retry()))
	require.Len(t, survivor.identities(), 1, "it counted as dead")
}

// dueBehindALink: many jobs are due, and the only worker, which takes another queue, promotes them.
func dueBehindALink(t *testing.T, l linkTrial) {
	s := l.site(t)
	link, worker := l.behind(s, "-q", "other", "--exec", "Any=true")
	for _, payload := range l.payloads(dueOnLink) {
		s.do("ZADD", s.keys.Schedule(), "1000000000", payload)
	}
	within(s, link, l.bound(tripsPromoted, dueOnLink, travelsPromoted), dueOnLink, func() int { return s.number("LLEN", s.keys.Queue("default")) })
	require.Zero(t, s.number("EXISTS", s.keys.Dead(), s.keys.Retry(), s.keys.Schedule()))
	require.Len(t, worker.identities(), 1, "it counted as dead")
}

// slowBesideHealthy: a worker with a slow link has jobs in hand when a healthy one starts. All jobs are done,
// the slow one holds no more than it can work on, and at no time they stand still.
func slowBesideHealthy(t *testing.T, l linkTrial) {
	s := l.site(t)
	link, slow := l.behind(s, "--exec", "Any=true")
	working := s.keys.Working("default", slow.identities()[0])
	s.queue(l.payloads(besideOnLink))
	eventually(t, "the slow one to take some", func() bool { return s.number("LLEN", working) > 0 })
	s.work("-c", "10", "--exec", "Any=sleep 0.5")
	most, done, since := 0, 0, time.Now()
	count := func() int {
		held, now := s.number("LLEN", working), s.number("GET", s.keys.Processed())
		most = max(most, held)
		if now > done {
			done, since = now, time.Now()
		}
		require.Less(t, time.Since(since), stall, "%d of %d are done, %d lie with the slow worker", done, besideOnLink, held)
		return now
	}
	within(s, link, l.bound(tripsRecovered, besideOnLink, travelsRun), besideOnLink, count)
	t.Logf("the slow worker held %d at most", most)
	// Those that it works on, and those of one take whose answer it did not receive in time.
	require.LessOrEqual(t, most, 2*inHandOnLink)
	require.Zero(t, s.number("EXISTS", s.keys.Failed(), s.keys.Dead(), s.keys.Retry()))
	require.Len(t, slow.identities(), 1, "it counted as dead")
}
