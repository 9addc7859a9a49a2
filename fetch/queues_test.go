package fetch

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

// shards is one process with several keyspaces, each behind a proxy of its own. Those of one rig share the loop.
type shards struct {
	t    *testing.T
	loop *Loop
	of   []*rig
}

// newShards makes a process with this many keyspaces, of which the first so many have a session.
func newShards(t *testing.T, open opener, count, entered, concurrency int, queues ...string) *shards {
	t.Helper()
	addr, log := drivertest.Redis(t).Addr(), &drivertest.Buffer{}
	s := &shards{t: t, loop: NewLoop(Config{
		Log: slog.New(logbook.JSON(log, slog.LevelDebug)), Shares: []Share{{Order: strictly(t, queues...), Concurrency: concurrency}},
		Largest: job.DefaultPayloadLimit + job.PayloadSlack, CallTimeout: time.Second, DrainFor: 10 * time.Second,
	})}
	for i := range count {
		r := &rig{
			t: t, ctx: t.Context(), proxy: faultproxy.New(t, addr), direct: open(t, "redis://"+addr), keys: lua.NewKeys(drivertest.Prefix(t)),
			clock: &lua.Clock{}, queues: queues, log: log, loop: s.loop,
			record: lua.Record{Queues: queues, Beat: rigTTL / 4, TTL: rigTTL, Concurrency: concurrency},
		}
		var err error
		r.k, err = s.loop.Open(Space{Name: fmt.Sprint("s", i), Client: open(t, r.proxy.URL()), Keys: r.keys, Clock: r.clock})
		require.NoError(t, err)
		if i < entered {
			r.enter()
		}
		s.of = append(s.of, r)
	}
	t.Cleanup(func() {
		s.loop.beQuiet()
		s.pump("the waits to end", func() bool {
			for _, r := range s.of {
				if r.k.inFlight > 0 {
					return false
				}
			}
			return s.openWaits() == 0
		})
		require.NoError(t, s.loop.Close())
	})
	return s
}

// pump lets the loop work until a condition holds. Jobs that become ready are noted as running.
func (s *shards) pump(what string, until func() bool) {
	s.t.Helper()
	s.of[0].pump(what, func() bool {
		for _, r := range s.of[1:] {
			r.running = r.k.startReady(r.running)
		}
		return until()
	})
}

// running returns how many jobs of each keyspace run.
func (s *shards) running() []int {
	counts := make([]int, len(s.of))
	for i, r := range s.of {
		counts[i] = len(r.running)
	}
	return counts
}

func (s *shards) run(counts ...int) {
	s.t.Helper()
	s.pump(fmt.Sprint("runs ", counts), func() bool { return fmt.Sprint(s.running()) == fmt.Sprint(counts) })
}

// balance ends runs of the first of two keyspaces until each has two.
func (s *shards) balance() {
	s.t.Helper()
	s.pump("two runs of each", func() bool {
		if len(s.of[0].list(s.of[0].keys.Queue("mail"))) == 0 {
			s.of[0].push("mail", 10)
		}
		if len(s.of[0].running) > 2 {
			s.of[0].endOne()
		}
		return fmt.Sprint(s.running()) == "[2 2]"
	})
}

func (s *shards) openWaits() (count int) {
	for _, r := range s.of {
		count += r.k.openWaits()
	}
	return count
}

func (s *shards) awhile(d time.Duration) {
	s.t.Helper()
	until := time.Now().Add(d)
	s.pump("a while", func() bool { return time.Now().After(until) })
}

// endOne ends the oldest run of a keyspace.
func (r *rig) endOne() {
	r.finish(r.running[0], job.Done())
	r.running = r.running[1:]
}

// stall makes the keyspace's Redis silent until the returned gate is opened.
func (r *rig) stall() *faultproxy.Gate {
	gate := faultproxy.NewGate()
	r.t.Cleanup(gate.Open)
	r.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Do: faultproxy.Hold(gate)})
	return gate
}

func TestKeyspacesWithJobsShareTheProcessors(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		t.Run("in_equal_parts", func(t *testing.T) {
			t.Parallel()
			s := newShards(t, open, 3, 3, 7, "mail")
			for _, r := range s.of {
				r.push("mail", 20)
			}
			s.pump("all processors to be busy", func() bool { return s.loop.shares[0].busy == 7 })
			require.ElementsMatch(t, []int{3, 2, 2}, s.running())
			for range 30 { // whichever ends, the parts stay equal
				r := s.of[0]
				for _, other := range s.of {
					if len(other.running) > len(r.running) {
						r = other
					}
				}
				r.endOne()
				s.pump("the next job", func() bool { return s.loop.shares[0].busy == 7 })
				require.ElementsMatch(t, []int{3, 2, 2}, s.running())
			}
		})

		t.Run("also_when_there_is_one_processor", func(t *testing.T) {
			t.Parallel()
			s := newShards(t, open, 2, 2, 1, "mail")
			for _, r := range s.of {
				r.push("mail", 10)
			}
			order := ""
			for range 20 {
				s.pump("a job", func() bool { return s.loop.shares[0].busy == 1 && s.running()[0]+s.running()[1] == 1 })
				for i, r := range s.of {
					if len(r.running) == 1 {
						order += fmt.Sprint(i)
						r.endOne()
						break
					}
				}
			}
			require.Equal(t, 10, strings.Count(order, "01")+strings.Count(order[1:], "10")-9, "in turn: "+order)
		})

		t.Run("and_those_without_jobs_have_no_part", func(t *testing.T) {
			t.Parallel()
			s := newShards(t, open, 5, 5, 2, "mail")
			s.pump("waits on all", func() bool { return s.openWaits() == 5 })
			s.of[3].push("mail", 200)
			s.run(0, 0, 0, 2, 0)
			pushed := false
			s.pump("a job of another keyspace, beside a queue that is never empty", func() bool {
				for len(s.of[3].running) > 0 {
					s.of[3].endOne()
				}
				if !pushed {
					pushed = true
					s.of[1].push("mail", 1)
				}
				if len(s.of[3].list(s.of[3].keys.Queue("mail"))) < 100 {
					s.of[3].push("mail", 100)
				}
				return len(s.of[1].running) == 1
			})
		})
	})
}

func TestASilentKeyspaceDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		t.Run("its_take_reserves_no_more_than_its_part", func(t *testing.T) {
			t.Parallel()
			s := newShards(t, open, 2, 2, 4, "mail")
			for _, r := range s.of {
				r.push("mail", 10)
			}
			gate := s.of[1].stall()
			s.run(2, 0)
			require.Equal(t, 2, s.of[1].k.intakes[0].reserved)
			s.run(4, 0) // its take has failed
			gate.Open()
			s.balance()
		})

		t.Run("an_unacked_settle_occupies_no_processor", func(t *testing.T) {
			t.Parallel()
			s := newShards(t, open, 2, 2, 4, "mail")
			for _, r := range s.of {
				r.push("mail", 10)
			}
			s.run(2, 2)
			gate := s.of[1].stall()
			s.of[1].endOne()
			s.pump("the settle to fail", func() bool { return s.of[1].k.outage.away && s.of[1].k.ledger.count(unacked) == 1 })
			s.run(3, 1)
			s.of[1].endOne() // while Redis is away
			s.run(4, 0)
			require.Equal(t, "<nil>", s.of[1].count(s.of[1].keys.Processed()))
			gate.Open()
			s.pump("the settles", func() bool { return s.of[1].count(s.of[1].keys.Processed()) == "2" })
			require.Equal(t, 1, strings.Count(s.of[0].log.String(), "redis is away"))
			s.balance()
			require.NotContains(t, s.of[0].log.String(), "ownership lost")
		})

		t.Run("a_run_whose_start_it_does_not_record_occupies_none_for_longer_than_the_lease", func(t *testing.T) {
			t.Parallel()
			s := newShards(t, open, 2, 2, 4, "mail")
			silent := s.of[1]
			gate := silent.gated(lua.Size{Concurrency: 10})
			_, _ = silent.keys.Start("x", nil).Do(t.Context(), silent.direct) // loads the script
			_, sha := silent.keys.Start("x", nil).Call.Script.Text(true)
			start := faultproxy.NewGate()
			t.Cleanup(start.Open)
			silent.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: sha, Do: faultproxy.Hold(start)})
			for _, r := range s.of {
				r.push("mail", 10)
			}
			s.pump("the start", func() bool {
				select {
				case <-start.Arrived():
					return true
				default:
					return false
				}
			})
			rest := silent.stall()
			s.pump("the outage", func() bool { return silent.k.outage.away })
			require.Equal(t, []int{2, 0}, s.running())
			silent.session.confirm(lua.SinceBoot() - rigTTL)
			s.run(4, 0)
			start.Open()
			rest.Open()
			silent.stay()
			for ended := 0; ended < 20; {
				for _, r := range s.of {
					r.beat()
					for len(r.running) > 0 {
						r.endOne()
						ended++
					}
				}
				s.awhile(20 * time.Millisecond)
			}
			for _, r := range s.of {
				s.pump("the settles", func() bool { return r.count(r.keys.Processed()) == "10" })
				r.requireSlots(gate, "0", "0")
			}
			require.NotContains(t, silent.log.String(), "ownership lost")
		})

		t.Run("its_outage_has_its_name_in_the_log_and_ends_by_its_own_answer", func(t *testing.T) {
			t.Parallel()
			s := newShards(t, open, 2, 2, 4, "mail")
			s.of[0].push("mail", 1)
			s.run(1, 0)
			gate := s.of[1].stall()
			s.of[1].k.reconcile.due = true
			s.pump("the outage", func() bool { return strings.Contains(s.of[0].log.String(), "redis is away") })
			s.of[0].endOne()
			s.of[0].push("mail", 1)
			s.run(1, 0) // the other Redis has answered
			require.NotContains(t, s.of[0].log.String(), "redis is back")
			gate.Open()
			s.pump("the end of the outage", func() bool { return strings.Contains(s.of[0].log.String(), "redis is back") })
			for line := range strings.Lines(s.of[0].log.String()) {
				if strings.Contains(line, "redis is") {
					require.Contains(t, line, `"shard":"s1"`)
				}
			}
		})
	})
}

// A process that was suspended for longer than its lease has idle processors, and none of its keyspaces may take.
func TestKeyspacesWithoutALeaseTakeNothing(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		s := newShards(t, open, 2, 2, 4, "mail")
		for _, r := range s.of {
			r.push("mail", 1)
			r.session.confirm(lua.SinceBoot() - rigTTL)
		}
		s.awhile(100 * time.Millisecond)
		require.Equal(t, []int{0, 0}, s.running())
		s.of[1].beat()
		s.run(0, 1)
		s.of[0].beat()
		s.run(1, 1)
	})
}

// A keyspace has no session until its Redis has answered for the first time.
func TestAKeyspaceWithoutASessionDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		s := newShards(t, open, 2, 1, 2, "mail")
		r := s.of[0]
		r.push("mail", 3)
		s.run(2, 0)
		r.end(done)
		s.run(1, 0)
		r.do("RPUSH", r.keys.Quarantine("mail"), crashedTwice("mail"))
		r.beat()
		s.pump("the drain", func() bool { return s.loop.quarantine.draining != nil })
		r.end(done)
		s.pump("the quarantined job", func() bool { return len(r.running) == 1 && r.running[0].quarantined })
		s.of[1].push("mail", 1)
		s.of[1].enter()
		s.awhile(200 * time.Millisecond)
		require.Equal(t, []int{1, 0}, s.running(), "nothing runs beside a quarantined job, of whichever keyspace it is")
		r.end(done)
		s.run(0, 1)
	})
}

func TestAQuarantinedJobHasAllKeyspacesForItself(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		quarantined := func(r *rig) {
			r.do("RPUSH", r.keys.Quarantine("mail"), crashedTwice("mail"))
			r.beat()
		}
		t.Run("it_waits_for_what_runs_from_the_others", func(t *testing.T) {
			t.Parallel()
			s := newShards(t, open, 2, 2, 2, "mail")
			s.of[1].push("mail", 1)
			s.run(0, 1)
			quarantined(s.of[0])
			s.pump("the drain", func() bool {
				return s.loop.quarantine.draining != nil && s.openWaits() == 0 && s.of[1].k.inFlight == 0 // a take
			})
			s.of[1].push("mail", 1)
			s.awhile(200 * time.Millisecond)
			require.Equal(t, []int{0, 1}, s.running())
			s.of[1].endOne()
			s.run(1, 0)
			require.True(t, s.of[0].running[0].quarantined)
			s.awhile(200 * time.Millisecond)
			require.Equal(t, []int{1, 0}, s.running())
			s.of[0].endOne()
			s.run(0, 1)
		})

		t.Run("a_new_session_elsewhere_does_not_end_its_drain", func(t *testing.T) {
			t.Parallel()
			s := newShards(t, open, 2, 2, 2, "mail")
			s.of[1].push("mail", 1)
			s.run(0, 1)
			quarantined(s.of[0])
			s.pump("the drain", func() bool { return s.loop.quarantine.draining != nil })
			s.of[1].enter()
			s.awhile(50 * time.Millisecond)
			require.NotNil(t, s.loop.quarantine.draining)
		})

		t.Run("an_orphaned_entry_of_another_keyspace_waits_for_it", func(t *testing.T) {
			t.Parallel()
			s := newShards(t, open, 2, 2, 2, "mail")
			quarantined(s.of[0])
			s.run(1, 0)
			orphan := payload("mail")
			s.of[1].do("LPUSH", s.of[1].keys.Working("mail", s.of[1].session.Identity), orphan)
			s.pump("it to be found", func() bool {
				s.of[1].k.reconcile.due = true
				return len(s.of[1].k.reconcile.orphaned) == 1
			})
			s.awhile(100 * time.Millisecond)
			require.Equal(t, []int{1, 0}, s.running())
			s.of[0].endOne()
			s.run(0, 1)
			require.Equal(t, []string{orphan}, bytesOf(s.of[1].running))
		})

		t.Run("a_keyspace_that_is_away_and_of_which_nothing_runs_does_not_prevent_it", func(t *testing.T) {
			t.Parallel()
			s := newShards(t, open, 2, 2, 2, "mail")
			s.of[1].push("mail", 1)
			s.run(0, 1)
			s.of[1].stall()
			s.of[1].endOne()
			s.pump("the outage", func() bool { return s.of[1].k.outage.away && s.of[1].k.openWaits() == 0 })
			quarantined(s.of[0])
			s.run(1, 0)
			require.True(t, s.of[0].running[0].quarantined)
		})
	})
}

func TestKeyspacesShareTheWaits(t *testing.T) {
	t.Parallel()
	queues := make([]string, 10)
	for i := range queues {
		queues[i] = fmt.Sprint("q", i)
	}
	s := newShards(t, clients["go-redis"], 3, 3, 4, queues...)
	var quotas []int
	for _, r := range s.of {
		quotas = append(quotas, r.k.intakes[0].quota)
	}
	require.ElementsMatch(t, []int{5, 5, 6}, quotas)
	s.pump("as many waits as a process may have", func() bool { return s.openWaits() == lua.MaxWaits })
	for _, r := range s.of { // queues without a wait are read now and then
		r.push(queues[9], 1)
	}
	s.run(1, 1, 1)
}

// Where a process has more keyspaces than waits, each keyspace has waits of some processes.
func TestNoKeyspaceLacksTheWaitsOfAllProcesses(t *testing.T) {
	t.Parallel()
	const spaces, processes = lua.MaxWaits + 4, 200
	waits := make([]int, spaces)
	for range processes {
		l := NewLoop(Config{Shares: []Share{{Order: strictly(t, "mail"), Concurrency: 1}}})
		for range spaces {
			k := &Keyspace{}
			k.intakes = []*intake{newIntake(k, l.shares[0])}
			l.spaces = append(l.spaces, k)
		}
		l.allotWaits()
		total := 0
		for i, k := range l.spaces {
			waits[i] += k.intakes[0].quota
			total += k.intakes[0].quota
		}
		require.Equal(t, lua.MaxWaits, total)
	}
	for i := range spaces {
		require.Greater(t, waits[i], processes/4, "of %d processes, for the keyspace %d", processes, i)
	}
}

// A call must never wait for the loop to read its event.
func TestEventsHaveRoomForTheCallsOfAllKeyspaces(t *testing.T) {
	t.Parallel()
	s := newShards(t, clients["go-redis"], 3, 0, 1, "mail")
	require.Equal(t, 3*maxEvents, cap(s.loop.events))
}
