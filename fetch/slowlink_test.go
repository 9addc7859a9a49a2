package fetch

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
)

// pushLarge stores jobs of so many bytes.
func (r *rig) pushLarge(queue string, count, bytes int) {
	r.t.Helper()
	for i := range count {
		r.do("LPUSH", r.keys.Queue(queue), job.Draft{
			Class: "Test", Queue: queue, ArgsJSON: fmt.Sprintf("[%d,%q]", i, strings.Repeat("x", bytes)),
		}.Encode())
	}
}

// works runs jobs, each for a turn, until count of them have ended, and holds that no more are ever in our
// list than there are processors. It answers how often each ran.
func (r *rig) works(queue string, count, processors int) map[string]int {
	r.t.Helper()
	ran, nextBeat := make(map[string]int), time.Now()
	r.pumpFor(3*rigPatience, "all jobs", func() bool {
		if time.Now().After(nextBeat) {
			nextBeat = time.Now().Add(150 * time.Millisecond)
			r.beat()
			length := r.do("LLEN", r.keys.Working(queue, r.session.Identity))
			require.LessOrEqual(r.t, length, int64(processors), "the worker takes what it does not know of")
		}
		for _, held := range r.running {
			ran[held.Bytes]++
			r.finish(held, job.Done())
		}
		r.running = nil
		return len(ran) == count
	})
	r.settled()
	require.Equal(r.t, fmt.Sprint(count), r.count(r.keys.Processed()))
	require.Empty(r.t, r.working(queue))
	require.NotContains(r.t, r.log.String(), "ownership lost")
	return ran
}

// A server that closes connections over the size of their answers is a slow link that can be repeated:
// whatever asks for too much has no answer, however long it waits.
func TestATakeThatBringsTooMuchIsFollowedByOneThatAsksForLess(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		server := drivertest.Start(t, "--client-output-buffer-limit", "normal 256kb 256kb 0")
		r := newRigOn(t, open, server.Addr(), "p", 25, "mail")
		r.pushLarge("mail", 100, 100_000)
		for bytes, times := range r.works("mail", 100, 25) {
			require.Equal(t, 1, times, "%.100s", bytes)
		}
	})
}

// Answers of takes are lost again and again: nothing more is taken before what they brought is in hand.
func TestNothingIsTakenWhileAListHoldsMoreThanIsKnown(t *testing.T) {
	t.Parallel()
	ways := map[string]faultproxy.Action{
		"the_connection_breaks":     faultproxy.Close(),
		"the_answer_comes_too_late": faultproxy.Delay(2 * time.Second),
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachClient(t, func(t *testing.T, open opener) {
				r := newRig(t, open, 3, "mail")
				r.push("mail", 12)
				sha := r.shaOfTake()
				for n := range 6 {
					r.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: sha, Nth: n + 1, Do: way})
				}
				for _, times := range r.works("mail", 12, 3) {
					require.Equal(t, 1, times)
				}
			})
		})
	}
}

func TestNothingIsTakenAfterAWaitWhoseAnswerWasLostUntilItsJobIsInHand(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := newRig(t, open, 1, "mail")
		r.pump("the wait", func() bool { return r.proxy.Count("BLMOVE") == 1 })
		r.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: "BLMOVE", Do: faultproxy.Close()})
		r.push("mail", 4)
		r.works("mail", 4, 1)
	})
}

// What a page has shown is not read again because a later one fails.
func TestAPageThatWasReadIsNotReadAgain(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := newRig(t, open, 10, "mail")
		r.k.link.Round = rigPatience // a busy machine makes no page fail
		r.pump("the wait", func() bool { return r.k.openWaits() == 1 })
		for i := range 10 {
			r.do("LPUSH", r.keys.Working("mail", r.session.Identity), job.Draft{
				Class: "Test", Queue: "mail", ArgsJSON: fmt.Sprintf("[%d,%q]", i, strings.Repeat("x", 100_000)),
			}.Encode())
		}
		sha := r.sha(r.keys.Entries("nothing", 0, 1, 1).Call)
		for n := range 8 {
			r.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: sha, Nth: 2 * (n + 1), Do: faultproxy.Close()})
		}
		beat := time.Now()
		r.pump("all of them", func() bool {
			if time.Now().After(beat) {
				beat = time.Now().Add(500 * time.Millisecond)
				r.beat()
			}
			return len(r.running) == 10
		})
		require.LessOrEqual(t, r.proxy.Count(sha), 20, "each page once, and each that failed once more")
		r.end(done)
	})
}

// A cutLink answers no call.
type cutLink struct{ driver.Client }

func (cutLink) Do(context.Context, ...driver.Call) []driver.Reply {
	return []driver.Reply{{Err: &driver.UncertainError{Err: context.DeadlineExceeded}}}
}

// A settle on a slow link is small, so that heartbeats come through between two.
func TestSettlesFitTheLink(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], 20, "mail")
	r.pushLarge("mail", 20, 100_000)
	r.pump("the jobs", func() bool { return len(r.running) == 20 })
	open := r.k.link.Client
	for range 5 {
		r.k.link.Client = cutLink{}
		r.k.link.Carry(t.Context(), 1, driver.Command("PING"))
		r.k.link.Client = open
		require.NoError(t, r.k.link.Check(t.Context()))
	}
	for _, held := range r.running {
		r.finish(held, job.Retried(held.Bytes, time.Minute))
	}
	r.running = nil
	largest := 0
	for before := 20; ; before = r.k.ledger.count(finished) {
		if r.k.nextBatch() == nil {
			break // as many are unread as may be
		}
		largest = max(largest, before-r.k.ledger.count(finished))
	}
	require.Equal(t, 1, largest)
}

// A new connection may take longer than a call: the probe that opens one waits longer each time, and jobs come.
func TestAProbeWaitsLongerWhereAConnectionTakesLong(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], 1, "mail")
	r.k.link.Round = 200 * time.Millisecond
	r.k.link.Client = drivertest.Slow{Client: r.k.link.Client, RoundTrip: 700 * time.Millisecond}
	r.push("mail", 1)
	nextBeat := time.Now()
	r.pump("the job", func() bool {
		if time.Now().After(nextBeat) {
			nextBeat = time.Now().Add(500 * time.Millisecond)
			r.stay()
		}
		return len(r.running) == 1
	})
	r.end(done)
}
