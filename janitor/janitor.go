package janitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
// A janitor checks twice. A process that has lapsed may only be paused, cut off, or affected by a clock that
// was set, and so may the janitor's own process. So a janitor declares a process dead only if it has seen it
// lapsed twice, two of the victim's heartbeats apart; if its own contact with Redis was not interrupted in
// between; and if it has observed Redis' clock for the victim's whole TTL. The script that moves the jobs
// checks again.
//
// Its methods may be called from any goroutine. Look and Blind never wait for Redis; Pass, Sweep and Remind
// do, each call with a deadline of its own, and wait for each other.
type Janitor struct {
	cfg Config

	mu     sync.Mutex
	lapsed map[string]*suspected
	last   heartbeat
	since  time.Duration // boot time of the first heartbeat since Redis' clock last jumped
	more   bool          // the last heartbeat reply did not name all lapsed processes, and they have not been read since
	breaks int           // how often our observation was interrupted

	passing sync.Mutex // held during a Pass, a Sweep or a Remind, including its I/O
	// The fields below are guarded by passing.
	link     link.Link
	typical  int                  // recent typical size of a job, in bytes
	reminded map[string]time.Time // of long-quarantined jobs, by queue
	sweepAt  int                  // rank of the tombstone that the next sweep begins with
	forgetAt int                  // how many of the oldest tombstones must stay
	sweptAt  time.Time
	// unlistedAt is when this process last looked for expired locks; locksLeft reports whether there were
	// more.
	unlistedAt time.Time
	locksLeft  bool
}

// Config configures a Janitor.
type Config struct {
	// Client is the janitor's own: it must not wait behind jobs.
	Client driver.Client
	Keys   lua.Keys
	Log    *slog.Logger
	// Beat and TTL are the heartbeat interval and the TTL of this process.
	Beat, TTL time.Duration
	// Round bounds a call without jobs on a healthy link. Default: 1.5 s.
	Round time.Duration
	// Between is the minimum time between the two checks. It is at least two heartbeats of the victim.
	Between time.Duration
	Largest int
	// Recovered, if set, is called after jobs were moved. It must not block.
	Recovered func(from string, lists []lua.Orphans)
	// Crashes decides which of the interrupted jobs are quarantined, and which are moved to the dead set.
	Crashes retry.CrashPolicy
	// Unit is how instants are written into payloads.
	Unit job.TimeUnit
}

// heartbeat is the reply to a heartbeat of our own, with the instant since boot at which it was sent.
type heartbeat struct {
	lua.HeartbeatReply
	sinceBoot time.Duration
}

// suspected is the janitor's state of a process that has lapsed.
type suspected struct {
	first  time.Duration // since boot; so is seen
	seen   time.Duration // the last time, with no interruption in between
	record *lua.Record   // read at the first pass
	delay  time.Duration // random, so that survivors do not all read the same lists
	empty  bool          // it has no record, so its jobs cannot be found
}

const (
	// skew is the maximum difference between the advance of Redis' clock and of ours between two heartbeats.
	// With more, the observation counts as interrupted.
	skew = time.Second
	// lapsedPages is how many pages of names are read in one round trip. Most are empty, and the names of
	// thousands of processes fit into one call.
	lapsedPages = 16
	// maxRecords bounds the records that are read in one round trip.
	maxRecords = 256
)

// New returns a Janitor without observations.
func New(cfg Config) *Janitor {
	cfg.Log = logbook.OrDiscard(cfg.Log)
	return &Janitor{
		cfg: cfg, lapsed: make(map[string]*suspected), reminded: make(map[string]time.Time), typical: firstTypical,
		link: link.Link{Client: cfg.Client, Round: cfg.Round, Largest: cfg.Largest, Log: cfg.Log, Duty: "janitor"},
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

// Blind records that a heartbeat of our own failed. All earlier observations are discarded.
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

// noteLapsedLocked records that these processes had lapsed at an instant between sent and answered, both
// since boot. The time between two looks counts from the reply to the first to the request of the second.
// Otherwise a delayed call would make it seem longer.
func (j *Janitor) noteLapsedLocked(lapsed []string, sent, answered time.Duration) {
	for _, identity := range lapsed {
		s := j.lapsed[identity]
		if s == nil {
			s = &suspected{first: answered, delay: rand.N(j.cfg.Beat)}
			j.lapsed[identity] = s
		}
		s.seen = sent
	}
}

// forgetLocked drops processes that have not been seen lapsed since the last complete look.
func (j *Janitor) forgetLocked(since time.Duration) {
	for identity, s := range j.lapsed {
		if s.seen < since {
			delete(j.lapsed, identity)
		}
	}
}

// broken reports whether our observation was interrupted since the last heartbeat: by a gap in which our own
// process may have lapsed, or by a clock that was set.
func (j *Janitor) broken(seen heartbeat) bool {
	return j.stepped(seen) || seen.State != lua.StateAlive || seen.sinceBoot-j.last.sinceBoot > j.cfg.TTL/2
}

// stepped reports whether Redis' clock was set since the last heartbeat. It is true for the first one,
// which has nothing to compare with.
func (j *Janitor) stepped(seen heartbeat) bool {
	if j.last.Now.IsZero() {
		return true
	}
	localGap, redisGap := seen.sinceBoot-j.last.sinceBoot, seen.Now.Sub(j.last.Now)
	return (localGap - redisGap).Abs() > skew
}

// Pass recovers all processes that have been seen lapsed for long enough. me is our identity.
func (j *Janitor) Pass(ctx context.Context, me string) error {
	j.passing.Lock()
	defer j.passing.Unlock()
	if err := j.link.Check(ctx); err != nil {
		return err
	}
	tried := map[string]bool{me: true}
	var errs error
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

// readRecords reads what the heartbeat reply does not contain: further lapsed processes, and the records of
// all of them. Processes whose record cannot be read count as tried.
func (j *Janitor) readRecords(ctx context.Context, tried map[string]bool) (unreadable, err error) {
	if err := j.readLapsed(ctx); err != nil {
		return nil, err
	}
	for names := range slices.Chunk(j.withoutRecord(tried), maxRecords) {
		records, unread, err := j.records(ctx, names)
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

// readLapsed reads the names of all lapsed processes, once after each heartbeat reply that did not name
// them all.
func (j *Janitor) readLapsed(ctx context.Context) error {
	j.mu.Lock()
	more, beat, breaks := j.more, j.last.sinceBoot, j.breaks
	j.mu.Unlock()
	if !more {
		return nil
	}
	// Each round trip reads one page again: names move up when names before them are recovered.
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

// notePage records a page of names that had lapsed at an instant, read after a heartbeat, and reports whether
// our observation has been uninterrupted since then. The last page completes the look.
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

// withoutRecord returns lapsed processes whose record has not been read and that may be tried.
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

// confirmed returns some of the processes that the rule of two looks declares dead: as many as one pipeline
// may ask about. They count as tried.
func (j *Janitor) confirmed(tried map[string]bool) []*victim {
	j.mu.Lock()
	defer j.mu.Unlock()
	var victims []*victim
	lists := 0
	// The order is random, so janitors that begin at the same time begin with different processes.
	for identity, s := range j.lapsed {
		if tried[identity] || s.record == nil || s.empty || !j.deadLocked(s) {
			continue
		}
		v := &victim{identity: identity, record: *s.record, lists: j.cfg.Keys.ListsOf(s.record.Queues, identity)}
		lists += len(v.lists)
		if len(victims) == maxVictims || (len(victims) > 0 && lists > maxLists) {
			break
		}
		tried[identity] = true
		victims = append(victims, v)
	}
	return victims
}

// deadLocked applies the rule of two looks.
func (j *Janitor) deadLocked(s *suspected) bool {
	// The looks are our heartbeats, or follow one at once. A tenth of a period compensates for timers.
	between := max(2*s.record.Beat, j.cfg.Between) - j.cfg.Beat/10
	// An expiry means nothing if the clock was set, and a janitor that started after that cannot detect it.
	// But a process without a heartbeat for a TTL has no lease, so it cannot start jobs. An outage sets no
	// clock and causes no such delay.
	if j.last.sinceBoot-j.since < s.record.TTL-j.cfg.Beat/10 {
		return false
	}
	return s.seen-s.first >= between && lua.SinceBoot()-s.first >= between+s.delay
}

// recover recovers some of the dead processes, except those that another janitor is recovering.
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
		if outage == nil && v.finished() {
			j.mu.Lock()
			delete(j.lapsed, v.identity)
			j.mu.Unlock()
		}
	}
	return errs
}

// recoverFormers recovers the jobs that dead processes hold under their earlier identities.
func (j *Janitor) recoverFormers(ctx context.Context, successors []*victim) error {
	records := make(map[string]lua.Record, len(successors))
	var names []string
	for _, successor := range successors {
		if successor.state == lua.StateDead && successor.finished() {
			names = append(names, successor.identity)
			records[successor.identity] = successor.record
		}
	}
	former, err := j.formerVictims(ctx, names, records)
	if err != nil {
		return err
	}
	outage := j.moveJobs(ctx, "", slices.Collect(maps.Values(former)))
	for _, successor := range successors {
		if v := former[successor.identity]; v != nil {
			successor.moved += v.moved
			successor.err = v.err
		}
	}
	return outage
}

// formerVictims returns, by the current identities of dead processes, their earlier identities whose lists
// may hold jobs: a job may have reached such a list after Redis lost that identity (FLUSHALL, a lossy
// restart). Once its lists were found empty it has a tombstone, and the sweep reads them like any others.
func (j *Janitor) formerVictims(ctx context.Context, successors []string, records map[string]lua.Record) (map[string]*victim, error) {
	var names []string
	for _, successor := range successors {
		if former := records[successor].Formerly; former != "" {
			names = append(names, former)
		}
	}
	formers, _, err := j.records(ctx, names) // one that cannot be read is reported at its own turn
	if err != nil {
		return nil, err
	}
	victims := make(map[string]*victim)
	for _, successor := range successors {
		former := records[successor].Formerly
		if record := formers[former]; record.Successor == successor && !record.Emptied {
			victims[successor] = &victim{identity: former, record: record, lists: j.cfg.Keys.ListsOf(record.Queues, former)}
		}
	}
	return victims, nil
}
