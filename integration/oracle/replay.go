package oracle

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

// An Option says how a log is judged.
type Option func(r *replay)

// Prefix says that the keyspace to judge is the one under a prefix and a colon, as belay's --prefix means it.
// Without it, and without Prefixes, it is the whole database. Other keys are ignored.
func Prefix(prefix string) Option {
	if prefix != "" {
		prefix += ":"
	}
	return func(r *replay) { r.split = func(string) (string, bool) { return prefix, true } }
}

// Prefixes says that what stands before a key's first colon is its keyspace's prefix, whatever it is: each
// keyspace is judged by itself, and the report is of all of them. No prefix may hold a colon outside the hash
// tag that it is.
func Prefixes() Option {
	return func(r *replay) {
		r.split = func(key string) (string, bool) {
			at := strings.IndexByte(key, ':')
			if tag := strings.Index(key, "}:"); tag > 0 && key[0] == '{' {
				at = tag + 1
			}
			return key[:at+1], at >= 0
		}
	}
}

// OneFleet says that the keyspaces are the shards of one fleet: a job, and what must be in one place for all
// jobs with it, is on one of them.
func OneFleet() Option { return func(r *replay) { r.homes = make(map[string]string) } }

// Allow lets jobs go from a place to another by hands that are not Belay's, a test's or an operator's;
// nothing is asked of such a move. Nowhere to a place is planting a job there, a place to Nowhere deleting
// it.
func Allow(from, to Place) Option {
	return func(r *replay) { r.allow[way{from, to}] = true }
}

// Operators lets people do in one step what Sidekiq's pages and commands do: delete and clear, retry and
// kill, and give another time to what lies in a sorted set.
func Operators() Option {
	return func(r *replay) {
		for _, set := range []Place{Schedule, Retry, Dead} {
			for _, to := range []Place{Nowhere, Queue, Dead, set} {
				r.allow[way{set, to}] = true
			}
		}
		r.allow[way{Queue, Nowhere}] = true
	}
}

// Acts says that operators act by Belay's own commands: they retry, kill, delete and clear. Unlike with
// Operators, what they do is judged: one step a job, by one removal and one addition, and no byte changes but
// for those that it may.
func Acts() Option { return func(r *replay) { r.acts = true } }

// Foreign says that programs which are not Belay share the keyspace and move jobs as Sidekiq does: out of a
// set in one step and into a queue in another, at most within later; and out of a queue into a hand that no
// key shows, and from there to a queue or a set, or nowhere. Their counters move when they like.
func Foreign(within time.Duration) Option {
	return func(r *replay) { r.foreign = &within }
}

// ClockMoves says that the server's clock is set while it runs: nothing is judged by it.
func ClockMoves() Option { return func(r *replay) { r.clockMoves = true } }

// OldJanitors says that some of those that recover dead processes do not know slots: one may stay in the ledger
// of a process that has a tombstone.
func OldJanitors() Option { return func(r *replay) { r.oldJanitors = true } }

// Largest says how long a payload may be, in bytes, before it may be unrunnable unread. Without it, it is as
// long as a worker takes by default.
func Largest(bytes int) Option { return func(r *replay) { r.largest = bytes } }

// MaxInterruptions is the workers' --max-interruptions, which decides who is a quarantined job. Without it,
// it is the default; 0 is for a fleet whose workers do not agree, and then nothing is decided by it.
func MaxInterruptions(n int) Option { return func(r *replay) { r.crashLimit = n } }

// replay is one reading of a log.
type replay struct {
	split      func(key string) (prefix string, ok bool)
	allow      map[way]bool
	foreign    *time.Duration // within which a job comes back; nil without foreign programs
	acts       bool
	clockMoves bool
	// oldJanitors is whether slots may stay with processes that are dead.
	oldJanitors bool
	largest     int
	crashLimit  int    // crashes that a job may be in hand for
	traced      string // a jid whose steps are kept
	// homes are the prefixes of what must be on one shard; nil without OneFleet.
	homes map[string]string

	spaces map[string]*keyspace
	report Report
}

// Replay judges the append-only file of the server whose directory is dir, from its first step to its last.
// The server must be gone, or quiet. An error says that the log could not be read; what is wrong with what it
// tells is in the Report.
func Replay(dir string, options ...Option) (*Report, error) {
	r := newReplay(options)
	r.report.open, r.report.options = func() (source, error) { return Open(dir) }, options
	return r.run()
}

// A source is what steps are read from: one log, or those of several nodes of a Cluster.
type source interface {
	// Next returns the next step; io.EOF after the last.
	Next() (Step, error)
	// Truncated says how the last log ends if it ends within a step.
	Truncated() string
	Close() error
}

func newReplay(options []Option) *replay {
	r := &replay{
		split: func(string) (string, bool) { return "", true },
		allow: make(map[way]bool), largest: job.DefaultPayloadLimit + job.PayloadSlack, spaces: make(map[string]*keyspace),
		crashLimit: retry.DefaultMaxInterruptions,
	}
	r.report.Edges, r.report.Waiting, r.report.Taken = make(map[Edge]int), make(map[Place]int), make(map[string]int)
	r.report.Tenures, r.report.Follows = make(map[string][]Tenure), make(map[string]string)
	for _, option := range options {
		option(r)
	}
	return r
}

func (r *replay) run() (*Report, error) {
	log, err := r.report.open()
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	defer func() { _ = log.Close() }()
	var last Step
	for {
		step, err := log.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		r.take(&step)
		last = step
	}
	r.report.Truncated = log.Truncated()
	r.finish(&last)
	return &r.report, nil
}

// take takes in one step. Each keyspace that it touches judges its own part.
func (r *replay) take(step *Step) {
	r.report.Steps++
	if step.db != 0 {
		return // keyspaces lie in database 0
	}
	if step.base {
		r.recordsFirst(step.Commands)
	}
	var strides []*stride
	of := func(k *keyspace) *stride {
		if at := slices.IndexFunc(strides, func(s *stride) bool { return s.k == k }); at >= 0 {
			return strides[at]
		}
		s := &stride{Step: step, k: k, settled: make(map[string]bool)}
		strides = append(strides, s)
		return s
	}
	for _, c := range step.Commands {
		switch {
		case c[0] == "FLUSHALL" || c[0] == "FLUSHDB":
			for _, s := range strides {
				s.judge()
			}
			strides = nil
			r.flush()
		case c[0] == "SWAPDB":
			for _, k := range r.spaces {
				of(k).violate(nil, CannotJudge, "SWAPDB is not understood")
			}
		default:
			for _, k := range r.touched(c) {
				of(k).do(c)
			}
		}
	}
	for _, s := range strides {
		s.judge()
	}
}

// recordsFirst moves the records of processes to the front: they say which keys are working lists.
func (r *replay) recordsFirst(commands [][]string) {
	rank := func(c []string) int {
		if k := r.space(c[1], true); k != nil {
			if _, record := k.recordOf(c[1]); record {
				return 0
			}
		}
		return 1
	}
	slices.SortStableFunc(commands, func(a, b []string) int { return rank(a) - rank(b) })
}

// touched are the keyspaces that a command names keys of.
func (r *replay) touched(c []string) []*keyspace {
	if len(c) < 2 {
		return nil
	}
	if _, known := verbs[c[0]]; known && c[0] != "DEL" && c[0] != "UNLINK" {
		r.space(c[1], true)
		c = c[:2]
	}
	var found []*keyspace
	for _, word := range c[1:] {
		if k := r.space(word, false); k != nil && !slices.Contains(found, k) {
			found = append(found, k)
		}
	}
	return found
}

// space is the keyspace of a key, made if it may be; nil for a key of none.
func (r *replay) space(key string, make bool) *keyspace {
	prefix, ok := r.split(key)
	if !ok || !strings.HasPrefix(key, prefix) {
		return nil
	}
	k := r.spaces[prefix]
	if k == nil && make {
		k = newKeyspace(r, prefix)
		r.spaces[prefix] = k
	}
	return k
}

// flush ends all jobs at once: an emptied Redis is meant to be empty.
func (r *replay) flush() {
	for _, k := range r.spaces {
		for _, of := range k.jobs {
			r.report.Flushed += of.copies
			if of.abroad != nil {
				r.report.Flushed++
			}
			r.report.Edges[Edge{Nowhere, Nowhere, Flushed}]++
		}
		k.forget()
	}
}

// finish counts what is left, and holds that nothing has vanished.
func (r *replay) finish(last *Step) {
	r.report.Last = last.At
	for _, k := range r.spaces {
		k.closeBorders(&stride{Step: last, k: k})
		for _, spot := range k.spots {
			if n := spot.len(); n > 0 {
				r.report.Waiting[spot.place] += n
			}
		}
		for _, l := range k.locks {
			if last.At.IsZero() || l.expiry > float64(last.At.Unix())*1000 {
				r.report.Locks++
			}
		}
	}
	r.report.Dead = r.report.Waiting[Dead]
	delete(r.report.Waiting, Dead)
	r.report.balance()
}
