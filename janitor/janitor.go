package janitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// A Janitor decides which processes have died and brings their jobs back. Every process has one; they need
// no leader.
//
// A process that has lapsed need not be dead: it may be paused or cut off, or a clock was set. All of that
// may also have happened to the janitor's own process. So a janitor checks twice, and declares a process dead
// only if
//
//   - both checks, two of the victim's heartbeats apart, found it lapsed,
//   - the janitor's own contact with Redis was not interrupted in between, and
//   - the janitor has observed Redis' clock for the victim's whole TTL.
//
// The script that moves the jobs checks again.
//
// The methods may be called from any goroutine. Look and Blind never wait for Redis. Pass, Sweep and Remind
// wait for Redis, each call with a deadline of its own, and for each other.
type Janitor struct {
	cfg Config

	mu     sync.Mutex
	lapsed map[string]*suspected
	last   heartbeat
	since  time.Duration // when we sent the first heartbeat after Redis' clock was last set, since boot
	more   bool          // there are more lapsed processes than the last heartbeat reply names
	breaks int           // how often our observation was interrupted

	watching  sync.Mutex // held during a Watch, including its I/O; it guards the two below
	watch     watch
	watchLink link.Link

	passing sync.Mutex // held during a Pass, a Sweep or a Remind, including its I/O
	// The fields below are guarded by passing.
	link     link.Link
	typical  int                  // recent typical size of a job, in bytes
	reminded map[string]time.Time // of long-quarantined jobs, by queue
	sweepAt  int                  // rank of the tombstone with which the next sweep begins
	forgetAt int                  // how many of the oldest tombstones could not be deleted yet
	sweptAt  time.Time
	// unlistedAt is when this process last looked for expired locks; locksLeft reports whether there were
	// more.
	unlistedAt time.Time
	locksLeft  bool
	// droppedAt is when this process last looked for expired batches; batchesLeft reports whether there were
	// more, and dropAt is how many of the earliest could not be deleted.
	droppedAt   time.Time
	batchesLeft bool
	dropAt      int
}

// Config configures a Janitor.
type Config struct {
	// Client is for calls that carry no jobs, which must not wait behind jobs. Freight is for the others.
	// Default: Client.
	Client, Freight driver.Client
	Keys            lua.Keys
	Log             *slog.Logger
	// Beat and TTL are the heartbeat interval and the TTL of this process.
	Beat, TTL time.Duration
	// Round bounds a call without jobs on a healthy link. Default: 1.5 s.
	Round time.Duration
	// Between is the minimum time between the two checks. It is at least two heartbeats of the victim.
	Between time.Duration
	Largest int
	// Recovered, if set, is called after jobs were moved. It must not block.
	Recovered func(from string, lists []lua.Orphans)
	// Absent, if set, is called when a process is suspected or declared dead by its absence, so that a
	// heartbeat of our own and a Pass follow at once. It must not block.
	Absent func()
	// Crashes decides which of the interrupted jobs are quarantined, and which are moved to the dead set.
	Crashes retry.CrashPolicy
	// Unit is how instants are written into payloads.
	Unit job.TimeUnit
}

// heartbeat is the reply to a heartbeat of our own, and when that was sent, since boot.
type heartbeat struct {
	lua.HeartbeatReply
	sinceBoot time.Duration
}

// suspected is the janitor's state of a process that has lapsed.
type suspected struct {
	first  time.Duration // when a check first found it lapsed, since boot
	last   time.Duration // when a check last found it lapsed, since boot; nothing was interrupted in between
	record *lua.Record   // read by the first pass
	delay  time.Duration // random, so that the janitors do not all recover it at once
	empty  bool          // it has no record, so its jobs cannot be found
	dead   bool          // it has a tombstone; see Watch

	refused map[int]refusal // of its last pass, if that had more pages than one pass moves
	stays   error           // why Redis refuses to move the last of its jobs
	againAt time.Time       // when they are tried again
}

const (
	// skew is the maximum difference between the advance of Redis' clock and of ours between two heartbeats.
	// With more, the observation counts as interrupted.
	skew = time.Second
	// lapsedPages is how many pages of names are read in one round trip, enough for thousands of processes.
	// Most pages are empty.
	lapsedPages = 16
	// maxRecords bounds the records that are read in one round trip.
	maxRecords = 256
)

// New returns a Janitor without observations.
func New(cfg Config) *Janitor {
	cfg.Log = logbook.OrDiscard(cfg.Log)
	if cfg.Absent == nil {
		cfg.Absent = func() {}
	}
	return &Janitor{
		cfg: cfg, lapsed: make(map[string]*suspected), reminded: make(map[string]time.Time), typical: firstTypical,
		link:      link.Link{Client: cfg.Client, Freight: cfg.Freight, Round: cfg.Round, Largest: cfg.Largest, Log: cfg.Log, Duty: "janitor"},
		watchLink: link.Link{Client: cfg.Client, Round: cfg.Round, Log: cfg.Log, Duty: "presence"},
	}
}

// Look records the reply to one of our own heartbeats and when it was sent. It does no I/O.
func (j *Janitor) Look(reply lua.HeartbeatReply, sentSinceBoot, rtt time.Duration) {
	seen := heartbeat{HeartbeatReply: reply, sinceBoot: sentSinceBoot}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken(seen) {
		j.startOverLocked()
	}
	if j.stepped(seen) {
		j.since = seen.sinceBoot
	}
	j.last, j.more = seen, seen.More
	j.noteLapsedLocked(seen.Lapsed, seen.sinceBoot, seen.sinceBoot+rtt)
	if !j.more {
		j.forgetLocked(seen.sinceBoot)
	}
}

// Blind records that a heartbeat of our own failed. It discards all earlier observations.
func (j *Janitor) Blind() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.startOverLocked()
}

func (j *Janitor) startOverLocked() {
	clear(j.lapsed)
	j.more = false
	j.breaks++
}

// noteLapsedLocked records that a check, sent and answered at these instants since boot, found these processes
// lapsed. The time between two checks counts from the reply to the first to the request of the second, because
// otherwise a delayed call would make it seem longer.
func (j *Janitor) noteLapsedLocked(lapsed []string, sent, answered time.Duration) {
	for _, identity := range lapsed {
		s := j.lapsed[identity]
		if s == nil {
			s = &suspected{first: answered, delay: rand.N(j.cfg.Beat)}
			j.lapsed[identity] = s
		}
		s.last = sent
	}
}

// forgetLocked drops the processes that no check has found lapsed since this instant.
func (j *Janitor) forgetLocked(since time.Duration) {
	for identity, s := range j.lapsed {
		if s.last < since {
			delete(j.lapsed, identity)
		}
	}
}

// broken reports whether our observation was interrupted since the last heartbeat: our own process may have
// lapsed, or a clock was set.
func (j *Janitor) broken(seen heartbeat) bool {
	return j.stepped(seen) || seen.State != lua.StateAlive || seen.sinceBoot-j.last.sinceBoot > j.cfg.TTL/2
}

// stepped reports whether Redis' clock was set since the last heartbeat. It returns true for the first
// heartbeat, because there is nothing to compare it with.
func (j *Janitor) stepped(seen heartbeat) bool {
	if j.last.Now.IsZero() {
		return true
	}
	localGap, redisGap := seen.sinceBoot-j.last.sinceBoot, seen.Now.Sub(j.last.Now)
	return (localGap - redisGap).Abs() > skew
}

// Pass recovers the jobs of all processes that two checks have found lapsed. me is our identity.
func (j *Janitor) Pass(ctx context.Context, me string) error {
	j.passing.Lock()
	defer j.passing.Unlock()
	if err := j.link.Check(ctx); err != nil {
		return err
	}
	tried := map[string]bool{me: true}
	errs := j.putOff()
	for ctx.Err() == nil {
		unreadable, err := j.readRecords(ctx, tried)
		errs = errors.Join(errs, unreadable)
		if err != nil {
			return errors.Join(errs, j.link.Excused(err))
		}
		victims := j.confirmed(tried)
		if len(victims) == 0 {
			break
		}
		err = j.recover(ctx, me, victims)
		if driver.Outage(err) {
			return errors.Join(errs, j.link.Excused(err))
		}
		// One victim that cannot be recovered must not block the others.
		errs = errors.Join(errs, err)
	}
	return errs
}

// readRecords reads what the heartbeat reply does not contain: the names of further lapsed processes, and the
// records of all lapsed ones. It marks processes whose record cannot be read as tried.
func (j *Janitor) readRecords(ctx context.Context, tried map[string]bool) (unreadable, err error) {
	if err := j.readLapsed(ctx); err != nil {
		return nil, err
	}
	for names := range slices.Chunk(j.withoutRecord(tried), maxRecords) {
		records, unread, err := j.cfg.Keys.ReadRecords(ctx, &j.link, names)
		if err != nil {
			return unreadable, err
		}
		for _, identity := range names {
			if unread[identity] == nil {
				record, ok := records[identity]
				j.noteRecord(identity, record, ok)
			}
			tried[identity] = unread[identity] != nil
		}
		unreadable = errors.Join(unreadable, all(unread))
	}
	return unreadable, nil
}

// readLapsed reads the names of all lapsed processes, once after each heartbeat reply that does not name all.
func (j *Janitor) readLapsed(ctx context.Context) error {
	j.mu.Lock()
	more, beat, breaks := j.more, j.last.sinceBoot, j.breaks
	j.mu.Unlock()
	if !more {
		return nil
	}
	// Each round trip repeats the last page of the one before: names move to earlier pages while processes
	// before them are recovered.
	for first := 0; ; first += (lapsedPages - 1) * lua.MaxItems {
		var calls [lapsedPages]driver.Call
		for i := range calls {
			calls[i] = j.cfg.Keys.Lapsed(first + i*lua.MaxItems).Call
		}
		at := lua.SinceBoot()
		var names []string
		for _, reply := range j.link.Do(ctx, calls[:]...) {
			page, err := lua.Texts(reply)
			if err != nil {
				return fmt.Errorf("read the lapsed processes: %w", err)
			}
			names = append(names, page...)
		}
		last := len(names) < lapsedPages*lua.MaxItems
		if !j.notePage(names, at, lua.SinceBoot(), beat, breaks, last) || last {
			return nil
		}
	}
}

// notePage records the names that readLapsed has read after a heartbeat of ours. It returns false, and records
// nothing, if our observation was interrupted since that heartbeat. The last page completes the check.
func (j *Janitor) notePage(names []string, sent, answered, beat time.Duration, breaks int, last bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.breaks != breaks {
		return false
	}
	j.noteLapsedLocked(names, sent, answered)
	if last {
		j.forgetLocked(beat)
		j.more = j.more && j.last.sinceBoot != beat
	}
	return true
}

// withoutRecord returns the lapsed processes whose record has not been read, except those already tried.
func (j *Janitor) withoutRecord(tried map[string]bool) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var names []string
	for identity, s := range j.lapsed {
		if !tried[identity] && s.record == nil && !s.empty {
			names = append(names, identity)
		}
	}
	return names
}

func (j *Janitor) noteRecord(identity string, record lua.Record, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s := j.lapsed[identity]; s != nil {
		s.record, s.empty = &record, !ok
	}
}

// confirmed returns processes that are dead by two checks, as many as fit into one pipeline, and marks them as
// tried.
func (j *Janitor) confirmed(tried map[string]bool) []*victim {
	j.mu.Lock()
	defer j.mu.Unlock()
	var victims []*victim
	lists := 0
	// A map's order is random, so janitors that begin at the same time begin with different processes.
	for identity, s := range j.lapsed {
		if tried[identity] || s.record == nil || s.empty || time.Now().Before(s.againAt) || !j.deadLocked(s) {
			continue
		}
		v := &victim{identity: identity, record: *s.record, lists: j.cfg.Keys.ListsOf(s.record.Queues, identity), refused: s.refused}
		lists += len(v.lists)
		if len(victims) == maxVictims || (len(victims) > 0 && lists > maxLists) {
			break
		}
		tried[identity] = true
		victims = append(victims, v)
	}
	return victims
}

// deadLocked reports whether two checks declare the process dead.
func (j *Janitor) deadLocked(s *suspected) bool {
	if s.dead {
		return true
	}
	// The checks are our heartbeats, or follow one at once. A tenth of a period allows for late timers.
	between := max(2*s.record.Beat, j.cfg.Between) - j.cfg.Beat/10
	// If Redis' clock was set, an expiry means nothing, and a janitor that started later cannot detect that.
	// So it observes the clock for a TTL first: a process that sends no heartbeat for that long has no lease
	// and cannot start jobs. An outage sets no clock, so this delays no recovery after one.
	if j.last.sinceBoot-j.since < s.record.TTL-j.cfg.Beat/10 {
		return false
	}
	return s.last-s.first >= between && lua.SinceBoot()-s.first >= between+s.delay
}

// recover moves the jobs of dead processes, except those that another janitor has claimed.
func (j *Janitor) recover(ctx context.Context, me string, victims []*victim) error {
	outage := j.moveJobs(ctx, me, victims)
	if outage == nil {
		outage = j.recoverFormers(ctx, victims)
	}
	errs := outage
	for _, v := range victims {
		if v.moved > 0 || v.state == lua.StateDead && v.finished() {
			j.cfg.Log.Warn("recovered the jobs of a dead process", "dead", v.identity, "jobs", v.moved)
		}
		errs = errors.Join(errs, v.err)
		if outage == nil {
			j.noteEnd(v)
		}
	}
	return errs
}

// noteEnd records what a pass has left of a victim: nothing, more pages, or jobs that Redis refuses to move.
func (j *Janitor) noteEnd(v *victim) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.lapsed[v.identity]
	switch {
	case s == nil:
	case v.finished():
		delete(j.lapsed, v.identity)
	case v.more:
		s.refused = v.refused
	default:
		s.refused = nil
		if len(v.refused) > 0 {
			s.stays, s.againAt = v.err, time.Now().Add(refusedFor)
		}
	}
}

// putOff returns why Redis refuses to move the jobs of victims that are put off. An operator must learn of them
// as long as they stay.
func (j *Janitor) putOff() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, s := range j.lapsed {
		if time.Now().Before(s.againAt) {
			errs = append(errs, s.stays)
		}
	}
	return errors.Join(errs...)
}
