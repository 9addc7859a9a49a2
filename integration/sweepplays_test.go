package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A stage is a keyspace of its own on which one play is played, to the end of its owner.
type stage struct {
	*site
	program string // sweepworker
	book    *ledger
	death   *death
	proxy   *faultproxy.Proxy
	owner   *process
	queues  []string          // that workers take
	limited bool              // workers declare the limits
	jobs    map[string]string // class by jid, of all that is surely stored
	ticks   int               // of a periodic job, that are to be fired
}

func newStage(t *testing.T, s *site, program string, at point) *stage {
	t.Helper()
	proxy := faultproxy.New(t, s.server.Addr())
	return &stage{
		site: s, program: program, book: newLedger(t), proxy: proxy, death: newDeath(s, proxy, at),
		queues: []string{"a", "b", "c"}, jobs: make(map[string]string),
	}
}

// plays are what owners do until they die, or to their end. Whatever the moment of the death, the same jobs are
// stored by the stage itself.
var plays = map[string]func(*stage){
	"worker":     (*stage).worker,
	"janitor":    (*stage).janitor,
	"pusher":     (*stage).pusher,
	"clock":      (*stage).clock,
	newcomer:     (*stage).worker,
	"follower":   (*stage).follower,
	"batch":      (*stage).batch,
	"batcher":    (*stage).batcher,
	"sequence":   (*stage).sequence,
	"limited":    (*stage).limitedWorker,
	"gatekeeper": (*stage).gatekeeper,
	"caller":     (*stage).caller,
	"ruled":      (*stage).ruled,
}

// newcomer is the play of a worker whose server knows no script yet, and for its loading alone.
const newcomer = "newcomer"

// worker is one worker that takes, waits while idle, promotes, and ends runs in every way there is; and stops.
func (s *stage) worker() {
	s.do("SADD", s.keys.Paused(), "c")
	s.put("a", "Done", "done")
	s.put("a", "Fails", "fails")
	s.put("b", "Done", "other")
	s.put("c", "Done", "paused")
	s.later("b", "Done", "later", 0.2)
	s.own("-hold", "Stays", "work")
	s.counts(5)

	// What comes to one that waits comes alone, so that each way to end a run is in a command of its own.
	s.while("it to wait", func() bool { return s.proxy.Count("BLMOVE") > 0 })
	s.put("a", "Done", "idle")
	s.counts(6)
	s.put("b", "Dies", "dies", job.Edit{Name: "retry", JSON: "0"})
	s.counts(7)
	s.put("b", "Snoozes", "snoozes")
	s.counts(8)
	s.put("b", "ImportsFails", "imports")
	s.counts(10)
	s.do("SREM", s.keys.Paused(), "c")
	s.counts(11)

	s.put("a", "Stays", "stays")
	s.put("b", "Stays", "stays-too")
	s.starts("stays", "stays-too")
	s.stop()
}

// janitor is one worker that brings back the jobs of another that was killed, among them two that were in hand
// in one crash before and so are quarantined now; and stops with a quarantined job in hand.
func (s *stage) janitor() {
	interrupted := job.Edit{Name: "interrupted_count", JSON: "1"}
	s.put("a", "HoldsFails", "quarantined", interrupted)
	s.put("b", "Holds", "innocent")
	s.put("a", "Holds", "quarantined-too", interrupted)
	victim := s.act(s.site, "-hold", "Holds", "work")
	for jid := range s.jobs {
		s.book.awaitStart(jid, 1)
	}
	victim.kill()
	s.put("a", "Slow", "slow")
	s.own("-hold", "Stays", "work")
	s.counts(5)
	interrupted.JSON = "2"
	s.do("RPUSH", s.keys.Quarantine("a"), s.write("a", "Stays", "stays", interrupted))
	s.starts("stays")
	s.stop()
}

// follower is one worker that takes all queues of a pattern: one that is there when it begins, others that
// appear, and one that goes and comes again.
func (s *stage) follower() {
	s.queues = []string{"a", "late-*"}
	s.put("late-1", "Done", "early")
	s.own("-hold", "Stays", "work")
	s.counts(1)
	s.put("late-2", "Fails", "late")
	s.put("a", "Done", "done")
	s.counts(4)
	if number(s.text(s.keys.Processed())) == 4 {
		s.do("SREM", s.keys.Queues(), "late-1")
		s.while("the queue to go", func() bool {
			for _, identity := range s.set(s.keys.Alive()) {
				named, _ := s.do("HGET", s.keys.Record(identity), "queues").(string)
				if strings.Contains(named, "late-1") {
					return false
				}
			}
			return true
		})
	}
	s.put("late-1", "Stays", "stays")
	s.starts("stays")
	s.stop()
}

// batch is one worker that runs the members of a batch, and the callbacks that their ends store.
func (s *stage) batch() {
	filled := s.act(s.site, "batch")
	require.Zero(s.t, filled.wait(), filled.log())
	s.members()
	s.own("-hold", "Stays", "work")
	s.counts(6) // of three members one fails once, and two callbacks
	s.put("a", "Stays", "stays")
	s.starts("stays")
	s.stop()
}

// sequence is one worker that runs jobs with next jobs: one that fails once, whose next jobs are of two queues,
// and one of these has a next job itself.
func (s *stage) sequence() {
	next := func(queue, class, name, after string, fields ...job.Edit) string {
		return s.write(queue, class, name, append(fields, job.Remove("enqueued_at"), job.SetString(job.FieldAfter, s.jid(after)))...)
	}
	then := func(jobs ...string) job.Edit {
		return job.Edit{Name: job.FieldThen, JSON: "[" + strings.Join(jobs, ",") + "]"}
	}
	last := next("a", "Called", "last", "second")
	s.put("a", "Fails", "first", then(next("b", "CalledFails", "second", "first", then(last)), next("c", "Called", "beside", "first")))
	s.put("b", "Done", "other", then(next("b", "Called", "follower", "other")))
	s.own("-hold", "Stays", "work")
	s.counts(8) // of six jobs two fail once
	s.put("a", "Stays", "stays")
	s.starts("stays")
	s.stop()
}

// limitedWorker is one worker whose jobs wait for each other, and for a rate; it stops with one in hand and one
// that waits.
func (s *stage) limitedWorker() {
	s.limited = true
	s.put("a", "GatedFails", "first")
	s.put("b", "GatedDone", "second")
	s.put("a", "GatedDone", "third")
	s.put("b", "PacedDone", "paced")
	s.put("b", "PacedDone", "paced-too")
	s.own("-hold", "GatedStays", "work")
	s.counts(6) // of five jobs one fails once
	s.put("a", "GatedStays", "stays")
	s.starts("stays")
	s.put("b", "GatedDone", "waits")
	s.while("a job to wait", func() bool { return s.do("EXISTS", s.keys.Waiting()) == int64(1) })
	s.stop()
}

// ruled is one worker whose classes have an operator's rules: one is limited, one is dropped, and one is paused
// until its job waits, and then runs. It stops with a limited one in hand and one that waits.
func (s *stage) ruled() {
	redis, paused := s.driverOf(check.RoleOperator), lua.ClassRule{Class: "Fails"}
	for _, rule := range []lua.ClassRule{paused, {Class: "Done", Concurrency: 1}, {Class: "Stays", Concurrency: 1}, {Class: "Cancelled", Drop: true}} {
		_, err := s.keys.SetClassRule(rule).Do(s.t.Context(), redis)
		require.NoError(s.t, err)
	}
	s.put("a", "Done", "first")
	s.put("b", "Done", "second")
	s.put("a", "Done", "third")
	s.put("a", "Fails", "paused")
	s.put("b", "Cancelled", "dropped")
	s.own("-hold", "Stays", "work")
	s.counts(4)
	s.while("the paused job to wait", func() bool { return s.do("EXISTS", s.keys.WaitingList(paused.Gate().Name)) == int64(1) })
	_, err := s.keys.RemoveClassRule(paused.Class).Do(s.t.Context(), redis)
	require.NoError(s.t, err)
	s.counts(6) // one fails once
	s.put("a", "Stays", "stays")
	s.starts("stays")
	s.put("b", "Stays", "waits")
	s.while("a job to wait", func() bool { return s.do("EXISTS", s.keys.Waiting()) == int64(1) })
	s.stop()
}

// gatekeeper is one worker that brings back a job with a slot of a worker that was killed, and puts right what
// others left: a slot whose holder is gone, an admitted job that nobody takes, and the slot of a job that a
// janitor of an older version has recovered.
func (s *stage) gatekeeper() {
	s.limited = true
	s.put("a", "GatedHolds", "interrupted")
	victim := s.act(s.site, "-hold", "GatedHolds", "work")
	s.book.awaitStart(s.jid("interrupted"), 1)
	s.put("b", "GatedDone", "waits")
	eventually(s.t, "a job to wait", func() bool { return s.do("EXISTS", s.keys.Waiting()) == int64(1) })
	identity := victim.identities()[0]
	victim.kill()
	lost, late := lua.Gate{Name: "one:lost"}, lua.Gate{Name: "one:late"}
	s.do("EVAL", `redis.call('ZADD', KEYS[1], 1, ARGV[1]); return redis.call('HINCRBY', KEYS[2], ARGV[2], 1)`, "2",
		s.keys.Leases(), s.keys.Gates(), lost.Name+"\nholder", lost.RunningField())
	// Its queue is one that the owner does not serve.
	bytes, ago := s.write("elsewhere", "GatedDone", "late"), fmt.Sprint(time.Now().Add(-lua.LapseQueued-time.Minute).UnixMilli())
	s.do("EVAL", `redis.call('SADD', KEYS[4], ARGV[2]); redis.call('LPUSH', KEYS[1], ARGV[1])
		redis.call('HSET', KEYS[2], redis.sha1hex(ARGV[1]), ARGV[3]); return redis.call('HINCRBY', KEYS[3], ARGV[4], 1)`, "4",
		s.keys.Queue("elsewhere"), s.keys.Admitted(), s.keys.Gates(), s.keys.Queues(),
		bytes, "elsewhere", ago+"\n"+late.Name+"\nelsewhere", late.AdmittedField())
	s.own("-hold", "GatedStays", "work")
	s.queues = append(s.queues, "elsewhere") // of the healthy worker
	s.counts(2)
	s.while("the admission to lapse, and the lease to end", func() bool {
		return s.do("HEXISTS", s.keys.Gates(), late.AdmittedField()) == int64(0) && s.do("EXISTS", s.keys.Leases()) == int64(0)
	})
	left := lua.Gate{Name: "one:left"}
	s.do("EVAL", `if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
		redis.call('HSET', KEYS[2], redis.sha1hex('left'), ARGV[2]); redis.call('HINCRBY', KEYS[3], ARGV[3], 1) end return 1`, "3",
		s.keys.Tombstones(), s.keys.Slots(identity), s.keys.Gates(), identity, left.Name, left.RunningField())
	s.while("the slot to be freed", func() bool { return s.do("EXISTS", s.keys.Slots(identity)) == int64(0) })
	s.put("a", "GatedStays", "stays")
	s.starts("stays")
	s.stop()
}

// caller is a program that calls functions with a slot, without a job, while a worker runs a job with the same
// limit. If it dies with the slot, its lease ends; the stage does not wait for that.
func (s *stage) caller() {
	s.limited = true
	s.put("a", "GatedDone", "done")
	s.own("do")
	s.while("it to end", func() bool { return false })
	for _, lease := range s.set(s.keys.Leases()) {
		s.do("ZADD", s.keys.Leases(), "XX", "1", lease)
	}
	if !s.death.wasMet() {
		require.Len(s.t, s.book.of("acted", ""), 2)
	}
}

// batcher is a producer that makes a batch, fills and seals it. After its death another one repeats that.
func (s *stage) batcher() {
	s.own("batch")
	s.while("it to end", func() bool { return false })
	again := s.act(s.site, "batch")
	require.Zero(s.t, again.wait(), again.log())
	s.members()
}

// members are the jobs of the batch that the program makes.
func (s *stage) members() {
	s.jobs[s.jid("member-1")], s.jobs[s.jid("member-2")], s.jobs[s.jid("member-3")] = "Done", "Fails", "Done"
	s.jobs[s.jid("complete")], s.jobs[s.jid("success")] = "Called", "Called"
}

// yearly is a periodic job whose last tick was missed.
const yearly = "yearly"

// clock is one worker that registers a periodic job, fires the tick of another one and runs its job, and has a
// job in hand that is cancelled.
func (s *stage) clock() {
	redis := s.driverOf(check.RoleOperator)
	keyspace, err := client.New(redis, client.Config{Prefix: s.prefix})
	require.NoError(s.t, err)
	_, err = keyspace.SetPeriodic(s.t.Context(), client.Periodic{Name: yearly, Cron: "0 0 1 1 *", Job: client.RawJob{Class: "Done", Queue: "a"}})
	require.NoError(s.t, err)
	s.do("HSET", s.keys.PeriodicLast(), yearly, fmt.Sprint("since ", time.Now().AddDate(-1, 0, 0).UnixMilli()))
	s.put("b", "Cancelled", "cancelled")
	s.own("-hold", "Cancelled", "-schedule", "work")
	s.starts("cancelled")
	_, err = s.keys.Mark([]lua.Mark{{JID: s.jid("cancelled")}}).Do(s.t.Context(), redis)
	require.NoError(s.t, err)
	s.counts(2)
	s.stop()
	s.ticks = 1
	for _, run := range s.list(s.keys.PeriodicRuns(yearly)) {
		s.ticks--
		s.jobs[strings.Fields(run)[3]] = "Done"
	}
}

// pusher is a producer.
func (s *stage) pusher() {
	s.own("push")
	s.while("it to end", func() bool { return false })
	found := s.whereabouts()
	for call, jobs := range map[string]int{"one": 1, "later": 1, "bulk": 3, "mixed": 4} {
		stored, acked := 0, 0
		for jid := range found {
			if strings.HasPrefix(jid, s.jid(call)) {
				stored++
				s.jobs[jid] = "Done"
			}
		}
		for _, m := range s.book.of("acked", "") {
			if strings.HasPrefix(m.JID, s.jid(call)) {
				acked++
			}
		}
		require.Contains(s.t, []int{0, jobs}, stored, "of push %s some jobs are stored, and some not", call)
		if acked > 0 {
			require.Equal(s.t, jobs, stored, "push %s was acknowledged", call)
		}
	}
	if !s.death.wasMet() {
		require.Len(s.t, s.jobs, 9)
	}
}

// jid is the id of a job on this stage. It names the stage, so that the reader of an oracle's verdict knows
// which it was.
func (s *stage) jid(name string) string { return s.prefix + "-" + name }

// put stores a job as a producer does.
func (s *stage) put(queue, class, name string, fields ...job.Edit) {
	s.t.Helper()
	s.do("SADD", s.keys.Queues(), queue)
	s.do("LPUSH", s.keys.Queue(queue), s.write(queue, class, name, fields...))
}

// later is put for a job that is due so many seconds from now.
func (s *stage) later(queue, class, name string, seconds float64) {
	s.t.Helper()
	now := texts(s.do("TIME"))
	var whole, micros float64
	_, err := fmt.Sscan(now[0]+" "+now[1], &whole, &micros)
	require.NoError(s.t, err)
	s.do("ZADD", s.keys.Schedule(), fmt.Sprintf("%.6f", whole+micros/1e6+seconds), s.write(queue, class, name))
}

// write is a job's payload. fields replace those that Ruby writes, or are added.
func (s *stage) write(queue, class, name string, fields ...job.Edit) string {
	s.t.Helper()
	payload, err := job.Parse(rubyPayload(class, queue, "[]", s.jid(name)))
	require.NoError(s.t, err)
	s.jobs[s.jid(name)] = class
	return payload.Patch(fields...)
}

// act starts the program; words are flags, and what it is to do.
func (s *stage) act(by *site, words ...string) *process {
	s.t.Helper()
	role := check.RoleWorker
	if verb := words[len(words)-1]; verb == "push" || verb == "batch" {
		role = check.RoleProducer
	}
	flags := []string{"-redis", by.urlOf(role), "-prefix", s.prefix, "-client", s.client, "-ledger", s.book.path, fmt.Sprintf("-limited=%v", s.limited)}
	for _, queue := range s.queues {
		flags = append(flags, "-queue", queue)
	}
	return s.launch(s.program, append(flags, words...)...)
}

// own is act for the owner.
func (s *stage) own(words ...string) {
	s.t.Helper()
	s.owner = s.act(s.by(s.proxy.URL()), words...)
	s.death.owner <- s.owner
}

// while waits for something that the owner does, or for the owner's end.
func (s *stage) while(what string, done func() bool) {
	s.t.Helper()
	eventually(s.t, what, func() bool { return s.owner.ended() || done() })
}

// counts waits until so many runs are counted.
func (s *stage) counts(runs int) {
	s.t.Helper()
	s.while(fmt.Sprint(runs, " runs"), func() bool { return number(s.text(s.keys.Processed())) >= runs })
}

// starts waits until jobs of these names have started.
func (s *stage) starts(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.while("the start of "+name, func() bool { return len(s.book.starts(s.jid(name))) > 0 })
	}
}

// stop has the owner stop, if it lives, and waits for its end.
func (s *stage) stop() {
	s.t.Helper()
	if !s.owner.ended() {
		_ = syscall.Kill(s.owner.pid, syscall.SIGTERM)
	}
	s.while("it to stop", func() bool { return false })
}
