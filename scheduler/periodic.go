package scheduler

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// CatchUp sets what happens to ticks that passed while no process could fire them.
type CatchUp string

const (
	// CatchUpOnce fires one tick for all that passed, the last of them. While a process was alive, a tick that
	// is less than a minute late has not passed: the poller may die, and another process needs a moment to
	// replace it.
	CatchUpOnce CatchUp = "once"
	// CatchUpSkip fires none of them. A tick that is less than a minute late has not passed, whether a process
	// was alive or not: a fleet that is deployed needs that long.
	CatchUpSkip CatchUp = "skip"
	// CatchUpAll fires each of them, the earliest first, but only the last thousand.
	CatchUpAll CatchUp = "all"
)

// Overlap sets what happens at a tick while the job of an earlier tick waits or runs.
type Overlap string

const (
	// OverlapSkip enqueues no job for such a tick.
	OverlapSkip Overlap = "skip"
	// OverlapQueue makes one such tick wait, and enqueues its job when the earlier job has ended.
	OverlapQueue Overlap = "queue"
	// OverlapAllow enqueues a job for each tick.
	OverlapAllow Overlap = "allow"
)

const (
	// passedAfter is how late a tick is fired as if it were not late. It is much longer than a change of the
	// poller takes, and so short that a fleet that was quiet for an hour does not fire an hour of ticks.
	passedAfter = time.Minute
	// maxCaughtUp bounds how many ticks CatchUpAll fires.
	maxCaughtUp = 1000
	maxName     = 200
)

// A Periodic is a periodic job: a schedule and the job that each tick enqueues.
type Periodic struct {
	// Name identifies it in the fleet.
	Name string
	// Cron and Zone are its schedule; see ParseSchedule.
	Cron, Zone string
	CatchUp    CatchUp
	// Jitter delays each tick by less than this: by an amount that depends on the name and the tick, so that
	// all processes agree about it.
	Jitter  time.Duration
	Overlap Overlap
	// Job is the payload of its jobs, without their jid and times.
	Job string

	schedule *Schedule
	template *job.Job
	digest   string
	// lock is the lock of its jobs that OverlapRule makes; "" if they have none, or one of their own.
	lock string
}

// OverlapRule makes the jobs of a periodic job equal to each other, and to no other jobs of their class. The
// lock is held until the job has ended, however long it waits or runs: it expires so late only because each
// lock must expire. TickLocks frees it if the job is lost, or is run by a process that frees no locks.
func OverlapRule(name string) dedup.Rule {
	return dedup.Rule{Until: dedup.UntilExecuted, TTL: dedup.MaxTTL, By: func(string) (string, error) {
		return job.Marshal(map[string]string{"periodic": name})
	}}
}

// stored is the JSON of a Periodic.
type stored struct {
	Cron     string          `json:"cron"`
	Zone     string          `json:"zone,omitempty"`
	CatchUp  CatchUp         `json:"catch_up"`
	JitterMS int64           `json:"jitter_ms,omitempty"`
	Overlap  Overlap         `json:"overlap"`
	Job      json.RawMessage `json:"job"`
}

// Check completes a Periodic: its empty fields get their defaults. It names everything that is wrong, at
// once.
func (p *Periodic) Check() error {
	if p.CatchUp == "" {
		p.CatchUp = CatchUpOnce
	}
	if p.Overlap == "" {
		p.Overlap = OverlapSkip
	}
	var errs []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	must(p.Name != "" && len(p.Name) <= maxName && strings.IndexFunc(p.Name, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0 && strings.ToValidUTF8(p.Name, "") == p.Name,
		"the name %q: it has 1 to %d bytes, and no control characters", p.Name, maxName)
	must(slices.Contains([]CatchUp{CatchUpOnce, CatchUpSkip, CatchUpAll}, p.CatchUp), "catch-up %q: it must be skip, once or all", p.CatchUp)
	must(slices.Contains([]Overlap{OverlapSkip, OverlapQueue, OverlapAllow}, p.Overlap), "overlap %q: it must be skip, queue or allow", p.Overlap)
	must(p.Jitter >= 0 && p.Jitter <= 24*time.Hour && p.Jitter%time.Millisecond == 0, "jitter %v: it must be whole milliseconds, at most a day", p.Jitter)
	var err error
	if p.schedule, err = ParseSchedule(p.Cron, p.Zone); err != nil {
		errs = append(errs, err)
	}
	if p.template, err = job.Parse(p.Job); err != nil {
		errs = append(errs, err)
	} else {
		errs = append(errs, job.CheckQueue(p.template.QueueOrDefault()))
		p.lock = p.overlapLock()
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	definition := p.Definition()
	size := len(definition.Text)
	must(size <= lua.MaxDefinition, "its definition is %d bytes long, and %d are allowed: pass a reference to the data instead", size, lua.MaxDefinition)
	p.digest = definition.Digest
	return errors.Join(errs...)
}

// overlapLock returns the digest of the lock that OverlapRule makes, if the jobs have it.
func (p *Periodic) overlapLock() string {
	lock, err := dedup.Read(p.template)
	if err != nil || lock.None() {
		return ""
	}
	made, err := OverlapRule(p.Name).Lock(job.Draft{Class: p.template.Class(), JID: lock.JID})
	if err != nil || made.Digest != lock.Digest {
		return ""
	}
	return lock.Digest
}

// Definition returns the definition that is stored in Redis.
func (p *Periodic) Definition() lua.Definition {
	var out strings.Builder
	write := json.NewEncoder(&out)
	write.SetEscapeHTML(false) // each tick's job has the bytes of the job, and Ruby does not escape <, > and &
	// It cannot fail: Check has parsed the job.
	_ = write.Encode(stored{p.Cron, p.Zone, p.CatchUp, p.Jitter.Milliseconds(), p.Overlap, json.RawMessage(p.Job)})
	text := strings.TrimSuffix(out.String(), "\n")
	return lua.Definition{Name: p.Name, Digest: digestOf(text), Schedule: digestOf(p.Cron + "\n" + p.Zone), Text: text}
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// ReadPeriodic reads a stored definition. Its digest stays the stored one, by which the scripts know it.
func ReadPeriodic(d lua.Definition) (*Periodic, error) {
	var s stored
	if err := json.Unmarshal([]byte(d.Text), &s); err != nil {
		return nil, fmt.Errorf("the definition of %q cannot be read: %w", d.Name, err)
	}
	p := &Periodic{
		Name: d.Name, Cron: s.Cron, Zone: s.Zone, CatchUp: s.CatchUp, Jitter: time.Duration(s.JitterMS) * time.Millisecond,
		Overlap: s.Overlap, Job: string(s.Job),
	}
	// Earlier versions stored <, > and & as escapes, and an operator's definition stays as it is. What
	// cannot be respelled is judged by Check.
	if spelled, err := job.Marshal(s.Job); err == nil {
		p.Job = spelled
	}
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("the definition of %q cannot be used here: %w", d.Name, err)
	}
	p.digest = d.Digest
	return p, nil
}

// Class returns the class of its jobs.
func (p *Periodic) Class() string { return p.template.Class() }

// Queue returns the queue of its jobs.
func (p *Periodic) Queue() string { return p.template.QueueOrDefault() }

// ArgsJSON returns the arguments of its jobs.
func (p *Periodic) ArgsJSON() string { return p.template.ArgsJSON() }

// Schedule returns its schedule.
func (p *Periodic) Schedule() *Schedule { return p.schedule }

// dueAt returns when a tick's job may be enqueued: its nominal time plus the jitter, which ends before the next
// tick. So ticks are due in their order, however long the jitter is.
func (p *Periodic) dueAt(nominal time.Time) time.Time {
	if p.Jitter == 0 {
		return nominal
	}
	maxJitter := p.Jitter
	if next := p.schedule.Next(nominal); !next.IsZero() {
		maxJitter = min(maxJitter, next.Sub(nominal))
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(p.Name + "\n" + strconv.FormatInt(nominal.Unix(), 10)))
	// The sum is mixed once more, because the last bytes are similar for neighbouring ticks.
	mixed := sum.Sum64()
	mixed ^= mixed >> 33
	mixed *= 0xff51afd7ed558ccd
	mixed ^= mixed >> 33
	return nominal.Add(time.Duration(mixed%uint64(maxJitter.Milliseconds())) * time.Millisecond)
}

// TickJob makes the job of the tick with this nominal time. A zero time is for a run that an operator asks for:
// its tick is marked as manual and has this second as its time, because a handler that reports "yesterday" by
// it must not report the year 1.
func (p *Periodic) TickJob(nominal, now time.Time, unit job.TimeUnit) (*lua.TickJob, error) {
	jid := job.NewJID()
	tick, shown := job.Tick{Name: p.Name, At: nominal}, nominal.Format(time.RFC3339)
	if nominal.IsZero() {
		tick.At, tick.Manual, shown = now.In(p.schedule.zone).Truncate(time.Second), true, "-"
	}
	edits := append(p.template.LimitsFrom(now), job.SetString("jid", jid), job.SetStamp("created_at", now, unit), job.SetStamp("enqueued_at", now, unit),
		tick.Edit(), job.SetInt(job.FieldTrack, int(p.track(now).Milliseconds())))
	if edit, ok := p.template.AsNewActiveJob(job.NewUUID(), now); ok {
		edits = append(edits, edit)
	}
	raw := job.Spelled(p.template.Patch(edits...), unit)
	parsed, err := job.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("make the job of a tick: %w", err)
	}
	t := &lua.TickJob{Nominal: shown, Queue: p.Queue(), JID: jid, Bytes: raw}
	if !nominal.IsZero() {
		t.DueAt = p.dueAt(nominal)
	}
	lock, err := dedup.Read(parsed)
	if err != nil {
		return nil, fmt.Errorf("make the job of a tick: %w", err)
	}
	if !lock.None() {
		t.Lock = lock.Stored(parsed.Class())
	}
	return t, nil
}

const (
	// minTracked is the minimum time for which the outcome of a tick is kept, so that an operator has time to
	// look. A job that is due every second then has 600 outcomes.
	minTracked = 10 * time.Minute
	// maxTracked is the maximum, for a job that is due once in several months.
	maxTracked = 366 * 24 * time.Hour
)

// track returns how long the job of a tick is tracked: as long as the tick is in the history, or as long as its
// class sets.
func (p *Periodic) track(now time.Time) time.Duration {
	first := p.schedule.Next(now)
	track, _ := p.template.Track()
	return max(track, minTracked, min(lua.MaxRuns*p.schedule.Next(first).Sub(first), maxTracked))
}

// A LastTick is a value of the hash PeriodicLast: the last tick, or the time from which ticks count.
type LastTick struct {
	At time.Time
	// Ticked reports whether At is a tick.
	Ticked bool
}

const since = "since "

// ReadLastTick reads a value of the hash PeriodicLast.
func ReadLastTick(text string) (LastTick, error) {
	if ms, ok := strings.CutPrefix(text, since); ok {
		n, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return LastTick{}, fmt.Errorf("read the last tick: %w", err)
		}
		return LastTick{At: time.UnixMilli(n)}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return LastTick{}, fmt.Errorf("read the last tick: %w", err)
	}
	return LastTick{At: at, Ticked: true}, nil
}

// A step is the next action for a periodic job at an instant.
type step struct {
	// fire is the nominal time of the tick to fire now; zero for none.
	fire time.Time
	// last is the new last tick; zero for no change.
	last time.Time
	// next is when the poller checks the job again.
	next time.Time
	// reset reports that the last tick lies in the future, because a clock was set: ticks count from now on.
	reset bool
	// passed reports that ticks are left out.
	passed bool
}

// step returns the action at now. up is since when there has been a live process at each instant.
func (p *Periodic) step(last LastTick, now, up time.Time) step {
	after := last.At
	if !last.Ticked {
		after = after.In(p.schedule.zone)
	}
	now = now.In(p.schedule.zone)
	first := p.schedule.Next(after)
	switch {
	case after.After(now) && (!last.Ticked || after.After(p.schedule.Next(now))):
		return step{reset: true}
	case first.IsZero() || p.dueAt(first).After(now):
		return step{next: p.lookAt(first, now)}
	}
	var s step
	fire := first
	switch passed := p.passedBefore(now, up); {
	case p.CatchUp == CatchUpAll:
		// Ticks are at least a second apart.
		if now.Sub(first) > maxCaughtUp*time.Second {
			fire = p.schedule.last(after, now, maxCaughtUp)[0]
		}
	case p.dueAt(first).Before(passed):
		// The jitter of the last one before then may not have passed.
		for _, tick := range p.schedule.last(after, passed, 2) {
			if p.dueAt(tick).Before(passed) {
				fire = tick
			}
		}
		if p.CatchUp == CatchUpSkip {
			next := p.schedule.Next(fire)
			if next.IsZero() || p.dueAt(next).After(now) {
				return step{last: fire, next: p.lookAt(next, now), passed: true}
			}
			s.passed, fire = true, next
		}
	}
	s.passed = s.passed || fire.After(first)
	s.last, s.fire = fire, fire
	s.next = p.lookAt(p.schedule.Next(fire), now)
	return s
}

// passedBefore returns the instant before which due ticks have passed, unless CatchUpAll fires them. A tick
// that waits for the job of an earlier one is not late, however long it waits.
func (p *Periodic) passedBefore(now, up time.Time) time.Time {
	at := now.Add(-passedAfter)
	up = up.Add(time.Millisecond) // up is cut off to the millisecond in which the first process came
	switch {
	case p.Overlap == OverlapQueue && (p.CatchUp != CatchUpSkip || up.Before(at)):
		at = up
	case p.CatchUp != CatchUpSkip && up.After(at):
		at = up
	}
	return at.In(p.schedule.zone)
}

// lookAt returns when the poller checks a periodic job with this next tick; after a day if there is none.
func (p *Periodic) lookAt(tick, now time.Time) time.Time {
	if tick.IsZero() {
		return now.Add(24 * time.Hour)
	}
	return p.dueAt(tick)
}
