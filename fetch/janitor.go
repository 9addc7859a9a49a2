package fetch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// A Janitor judges which processes have died and brings their jobs back. Every process has one; they need no leader.
//
// Absence is judged twice. A process that lapses may be paused, cut off, or the victim of a clock; so may we. So it is
// declared dead only by one that saw it lapsed on two looks, two of the victim's own beats apart, and whose own sight of
// Redis did not break between them, and that has known Redis' clock for the victim's whole TTL; and the script that moves
// its jobs asks again.
//
// Its methods may be called from any goroutine. Look and Blind never wait for Redis; Pass and Sweep wait for each
// other. Remind is one goroutine's.
type Janitor struct {
	cfg JanitorConfig

	mu     sync.Mutex
	lapsed map[string]*sighting
	last   Pulse
	since  time.Duration // since boot, when we first saw Redis' clock as it goes now

	passing  sync.Mutex           // held by a Pass or a Sweep, for its I/O too
	reminded map[string]time.Time // of long-waiting suspects, by queue; Remind's own
	sweepAt  int                  // rank of the tombstone that the next sweep begins with
	forgetAt int                  // how many of the oldest ones were found to have to stay
	// unlistedAt is when this process looked last for locks that ran out.
	unlistedAt time.Time
}

// JanitorConfig is what a Janitor needs to know.
type JanitorConfig struct {
	// Client is the janitor's own: it must not wait behind jobs.
	Client driver.Client
	Keys   lua.Keys
	Log    zerolog.Logger
	// Beat and TTL are this process' own.
	Beat, TTL time.Duration
	// Between is the least time between the two looks; the victim's two beats hold besides.
	Between time.Duration
	Largest int
	// Recovered, if set, hears of what was brought back, after it was. It must not block.
	Recovered func(from string, lists []lua.Orphans)
	// Blame says which of the jobs that were in hand run alone from now on, and which are buried.
	Blame retry.Blame
	// Unit is how instants are written into payloads.
	Unit job.TimeUnit
}

// sighting is what is known of one that has lapsed.
type sighting struct {
	first  time.Duration // since boot
	record *lua.Record   // read at the first pass
	delay  time.Duration // drawn, so that survivors do not all read the same lists
	empty  bool          // no record: nothing can be done for it
}

const (
	// skew is how differently Redis' clock and ours may advance between two beats before our sight counts as broken.
	skew = time.Second
	// mostPages bounds one pass over one victim; the next pass goes on.
	mostPages = 32
)

// NewJanitor makes a Janitor.
func NewJanitor(cfg JanitorConfig) *Janitor {
	return &Janitor{cfg: cfg, lapsed: make(map[string]*sighting), reminded: make(map[string]time.Time)}
}

// Look takes in the answer to a beat of our own. It does no I/O.
func (j *Janitor) Look(pulse Pulse) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken(pulse) {
		clear(j.lapsed)
	}
	if j.stepped(pulse) {
		j.since = pulse.sinceBoot
	}
	j.last = pulse
	seen := make(map[string]bool, len(pulse.Lapsed))
	for _, identity := range pulse.Lapsed {
		seen[identity] = true
		if j.lapsed[identity] == nil {
			j.lapsed[identity] = &sighting{first: pulse.sinceBoot, delay: rand.N(j.cfg.Beat)}
		}
	}
	for identity := range j.lapsed {
		if !seen[identity] {
			delete(j.lapsed, identity)
		}
	}
}

// Blind says that a beat of our own failed: whatever we saw before counts no more.
func (j *Janitor) Blind() {
	j.mu.Lock()
	defer j.mu.Unlock()
	clear(j.lapsed)
}

// broken says whether our sight broke since the last beat: a gap in which we might have lapsed ourselves, or a clock
// that was set.
func (j *Janitor) broken(pulse Pulse) bool {
	return j.stepped(pulse) || pulse.State != lua.StateAlive || pulse.sinceBoot-j.last.sinceBoot > j.cfg.TTL/2
}

// stepped says whether Redis' clock was set since the last beat. Of our first we cannot know.
func (j *Janitor) stepped(pulse Pulse) bool {
	if j.last.Now.IsZero() {
		return true
	}
	ours, theirs := pulse.sinceBoot-j.last.sinceBoot, pulse.Now.Sub(j.last.Now)
	return (ours - theirs).Abs() > skew
}

// Pass recovers those that have been seen lapsed for long enough. me is our identity.
func (j *Janitor) Pass(ctx context.Context, me string) error {
	j.passing.Lock()
	defer j.passing.Unlock()
	unread := j.unread(me)
	records, unreadable, err := j.records(ctx, unread)
	if err != nil {
		return err
	}
	for _, identity := range unread {
		if unreadable[identity] == nil {
			record, ok := records[identity]
			j.learn(identity, record, ok)
		}
	}
	wrong := all(unreadable)
	for identity, record := range j.condemned(me) {
		// One victim that cannot be recovered must not cost the others their turn.
		wrong = errors.Join(wrong, j.follow(ctx, me, identity, record))
	}
	return wrong
}

// unread are those lapsed whose record has not been read.
func (j *Janitor) unread(me string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var names []string
	for identity, s := range j.lapsed {
		if identity != me && s.record == nil && !s.empty {
			names = append(names, identity)
		}
	}
	return names
}

func (j *Janitor) learn(identity string, record lua.Record, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s := j.lapsed[identity]; s != nil {
		s.record, s.empty = &record, !ok
	}
}

// condemned are those that the rule of two looks lets us follow now.
func (j *Janitor) condemned(me string) map[string]lua.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	names := make(map[string]lua.Record)
	for identity, s := range j.lapsed {
		if identity == me || s.record == nil || s.empty {
			continue
		}
		// The looks are beats of ours, so the second one is the last pulse. A tenth of a beat makes up for timers.
		between := max(2*s.record.Beat, j.cfg.Between) - j.cfg.Beat/10
		// Its expiry says nothing when the clock has been set, and whether it has, one who began to look after that cannot
		// know. What anybody can know is that it was not heard of for a TTL: then it has no lease either, by which it might
		// still start jobs. An outage, which sets no clock, puts nobody off for so long.
		if j.last.sinceBoot-j.since < s.record.TTL-j.cfg.Beat/10 {
			continue
		}
		if j.last.sinceBoot-s.first >= between && lua.SinceBoot()-s.first >= between+s.delay {
			names[identity] = *s.record
		}
	}
	return names
}

// follow recovers one that is judged dead, unless another janitor is at it.
func (j *Janitor) follow(ctx context.Context, me, identity string, record lua.Record) error {
	held, err := lua.Lease(j.cfg.Keys.Claim(identity), me, j.cfg.Beat).Do(ctx, j.cfg.Client)
	if err != nil || !held {
		return err
	}
	moved, state, err := j.rescue(ctx, identity, record)
	if err == nil && state == lua.StateDead {
		var late int
		late, err = j.followFormer(ctx, identity, record)
		moved += late
	}
	if state == lua.StateDead && (err == nil || moved > 0) {
		j.cfg.Log.Warn().Str("dead", identity).Int("jobs", moved).
			Msg("recovered: a process died, and its jobs are at the heads of their queues")
	}
	if err != nil {
		return err
	}
	j.mu.Lock()
	delete(j.lapsed, identity)
	j.mu.Unlock()
	return nil
}

// followFormer recovers what one that is judged dead has in hand under the identity it had before.
func (j *Janitor) followFormer(ctx context.Context, identity string, record lua.Record) (moved int, err error) {
	formers, err := j.formers(ctx, []string{identity}, map[string]lua.Record{identity: record})
	if err != nil {
		return 0, err
	}
	return j.rescueFormer(ctx, identity, record.Formerly, formers[record.Formerly])
}

// rescueFormer moves what lies in the lists of an earlier identity of a process that is dead now: a job that reached them
// after Redis had forgotten that identity (FLUSHALL, a lossy restart). Once its lists were found empty it has a tombstone,
// and the sweep looks through them as through any other's.
func (j *Janitor) rescueFormer(ctx context.Context, heir, former string, record lua.Record) (moved int, err error) {
	if record.Heir == heir && !record.Emptied {
		moved, _, err = j.rescue(ctx, former, record)
	}
	return moved, err
}

// rescue has identity declared dead, and moves what lies in its lists, page by page. Nothing is read before: the lists of one
// that lives are its own, and to read them may bury what we think too large. A queue whose key is broken is passed over, so
// that it holds up no other; its jobs stay, and the error says why.
func (j *Janitor) rescue(ctx context.Context, identity string, record lua.Record) (moved int, state lua.State, err error) {
	verdict, err := j.cfg.Keys.Recover(identity, record.Queues, nil).Do(ctx, j.cfg.Client)
	if err != nil || verdict.State != lua.StateDead || verdict.Left == 0 {
		return 0, verdict.State, err
	}
	state = lua.StateDead
	broken := make(map[place]error)
	for range mostPages {
		orphans, err := j.page(ctx, identity, record, broken)
		if err != nil {
			return moved, state, err
		}
		if len(orphans) == 0 && len(broken) > 0 {
			break // something is left, and cannot be moved
		}
		answer, err := j.cfg.Keys.Recover(identity, record.Queues, orphans).Do(ctx, j.cfg.Client)
		if err != nil && len(orphans) > 0 && !driver.Outage(err) {
			broken[placeOf(orphans[0])] = err
			continue
		}
		if err != nil {
			return moved, state, err
		}
		moved, state = moved+answer.Moved, answer.State
		if answer.Moved > 0 {
			j.tell(identity, orphans)
		}
		if state != lua.StateDead || answer.Left == 0 {
			break
		}
	}
	for at, err := range broken {
		return moved, state, fmt.Errorf("recover jobs of %q from %s: %w", at.queue, identity, err)
	}
	return moved, state, nil
}

func placeOf(orphans lua.Orphans) place {
	if orphans.Alone {
		return place{alone: true}
	}
	return place{queue: orphans.Queue}
}

// page reads the next entries of the lists of identity, in the order in which they go back, passing over the queues that
// are known to be broken.
func (j *Janitor) page(ctx context.Context, identity string, record lua.Record, broken map[place]error) ([]lua.Orphans, error) {
	lists := j.cfg.Keys.HandsOf(record.Queues, identity)
	lengths, err := lua.Lengths(lists).Do(ctx, j.cfg.Client)
	if err != nil {
		return nil, err
	}
	for i, list := range lists {
		orphans := lua.Orphans{Alone: i == len(record.Queues)}
		if !orphans.Alone {
			orphans.Queue = record.Queues[i]
		}
		at := placeOf(orphans)
		if lengths[i] <= 0 || broken[at] != nil {
			continue
		}
		// One list a page: a page is bounded by items and by bytes already.
		entries, err := j.cfg.Keys.Entries(list, 0, lua.MostBytes, j.cfg.Largest).Do(ctx, j.cfg.Client)
		if err == nil && orphans.Alone {
			// The record may have been read before its process took the suspect.
			orphans.Queue, err = lua.AloneQueueOf(j.cfg.Client.Do(ctx, j.cfg.Keys.AloneQueue(identity))[0])
		}
		if err != nil && !driver.Outage(err) {
			broken[at] = err
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(entries) > 0 {
			orphans.Entries = j.blame(entries, orphans.Queue, orphans.Alone, !record.Emptied)
			return []lua.Orphans{orphans}, nil
		}
	}
	return nil, nil
}
