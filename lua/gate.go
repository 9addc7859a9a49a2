package lua

import (
	"crypto/sha1" //nolint:gosec // for sumOf
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Gate decides whether a job may start. Jobs of one limit with equal keys share a gate.
type Gate struct {
	// Name is the limit's name, a colon and the key. A limit's name has no colon, and neither has a line feed.
	Name string
	// Size is the size of the limit as the program declares it. Scripts use the stored size, and store this one
	// if there is none. It is zero for the rule of a class that is limited, which no program declares: without
	// a stored size the gate lets all jobs start.
	Size Size
}

// Limit returns the name of the gate's limit, and the key.
func (g Gate) Limit() (name, key string) {
	name, key, _ = strings.Cut(g.Name, ":")
	return name, key
}

// ofLimit returns what the gates of one limit have in common: its name and size.
func (g Gate) ofLimit() Gate {
	name, _ := g.Limit()
	return Gate{Name: name, Size: g.Size}
}

// RunningField is the field of Keys.Gates with the number of runs that have a slot.
func (g Gate) RunningField() string { return g.Name + "\nr" }

// AdmittedField is the field of Keys.Gates with the number of jobs that are admitted and have not started.
func (g Gate) AdmittedField() string { return g.Name + "\na" }

// A RateKind says how starts are counted.
type RateKind string

// The kinds of rates.
const (
	RateNone RateKind = "none"
	// RateWindow allows N starts in any span of time that is as long as Per.
	RateWindow RateKind = "window"
	// RateLeaky allows N starts at once, and then one in each Nth part of Per. So a span as long as Per may
	// have up to 2N starts.
	RateLeaky RateKind = "leaky"
)

// A Size is how much a limit allows. The zero Size allows everything.
type Size struct {
	// Concurrency is how many runs there may be at once; 0 for no such limit.
	Concurrency int
	// Paused allows no run at all; Concurrency is 0 then.
	Paused bool
	// Drops is that of a class whose jobs end before they start. They do so in processes that know it, and wait
	// in others.
	Drops bool
	// Rate is RateNone, or "", for no limit of starts.
	Rate RateKind
	// N and Per are those of the Rate. Per is whole milliseconds.
	N   int
	Per time.Duration
}

// sizeDrops stands for the concurrency of a Size that Drops.
const sizeDrops = "drop"

// String returns the size as scripts read it.
func (s Size) String() string {
	most := "-"
	switch {
	case s.Drops:
		most = sizeDrops
	case s.Concurrency > 0 || s.Paused:
		most = strconv.Itoa(s.Concurrency)
	}
	if s.Rate == "" || s.Rate == RateNone {
		return most + " none 0 0"
	}
	return fmt.Sprintf("%s %s %d %d", most, s.Rate, s.N, s.Per.Milliseconds())
}

// A LimitSource says who decided a limit's size.
type LimitSource string

// The sources of a size.
const (
	LimitOfCode     LimitSource = "code"
	LimitOfOperator LimitSource = "operator"
	// LimitOfReset is of an operator's size that the next registration of a worker replaces.
	LimitOfReset LimitSource = "reset"
)

// A Limit is a limit as Redis has it.
type Limit struct {
	Name string
	Size
	Source LimitSource
	// SeenAt is when a worker registered the limit last, in whole seconds by Redis' clock; zero if none has.
	SeenAt time.Time
}

// ParseLimit reads the value of a field of Keys.Limits.
func ParseLimit(name, text string) (l Limit, err error) {
	words := strings.Fields(text)
	if len(words) != 6 {
		return l, fmt.Errorf("the size of the limit %q is unreadable: %q", name, text)
	}
	l = Limit{Name: name, Size: Size{Rate: RateKind(words[1])}, Source: LimitSource(words[4])}
	n, err := strconv.Atoi(words[2])
	ms, errMS := strconv.ParseInt(words[3], 10, 64)
	seen, errSeen := strconv.ParseInt(words[5], 10, 64)
	var errMost error
	if l.Drops = words[0] == sizeDrops; !l.Drops && words[0] != "-" {
		l.Concurrency, errMost = strconv.Atoi(words[0])
		l.Paused = l.Concurrency == 0
	}
	if err = errors.Join(err, errMS, errSeen, errMost); err != nil {
		return l, fmt.Errorf("read the size of the limit %q: %w", name, err)
	}
	l.N, l.Per = n, time.Duration(ms)*time.Millisecond
	if seen > 0 {
		l.SeenAt = time.Unix(seen, 0).UTC()
	}
	return l, nil
}

// keysOf are the keys of a gate of its own, in the order in which shared/gate.lua has them.
func (g Gate) keysOf(k Keys) []string {
	return []string{k.WaitingList(g.Name), k.Rate(g.Name), k.Stop(g.Name)}
}

// A Waiter is an entry of a gate's waiting list.
type Waiter struct {
	// Queue is where the job goes when it is admitted.
	Queue string
	// Bytes are the job's.
	Bytes string
}

// ParseWaiter reads an entry of a waiting list. No name of a queue has a line feed.
func ParseWaiter(entry string) Waiter {
	queue, bytes, _ := strings.Cut(entry, "\n")
	return Waiter{queue, bytes}
}

// String returns the entry.
func (w Waiter) String() string { return w.Queue + "\n" + w.Bytes }

// MaxLook is how far ahead the poller's next look at a gate is at most; see GatesByLook.
const MaxLook = 5 * time.Second

// sumOf returns the name by which ledgers and admissions know a job: the SHA-1 of its bytes, as redis.sha1hex
// writes it. Redis would need longer for it than for a command.
func sumOf(bytes string) string {
	sum := sha1.Sum([]byte(bytes)) //nolint:gosec // a name; workers of earlier versions use the same
	return hex.EncodeToString(sum[:])
}

// A slot is what becomes of the slot of a job that has moved, or of its admission, if it has one. It is set by
// the functions of the scripts; see shared/slot.lua.
type slot struct {
	as       slotFate
	identity string
	// sum is the job's, see sumOf.
	sum string
	// of is a text that scripts need: the names of queues for slotFree, each on a line; else the job's queue.
	of string
	// queues are those into which waiters may be admitted.
	queues []string
	gate   *Gate
	// stop is for how long the gate starts nothing.
	stop time.Duration
}

// A slotFate is what becomes of a slot, as scripts name it.
type slotFate string

const (
	slotFree  slotFate = "frees"  // waiters are admitted for it
	slotKeep  slotFate = "keeps"  // it stays with the job, which goes back to its queue: the job is admitted
	slotWait  slotFate = "waits"  // it is freed, the job waits first, and the gate stops
	slotLeave slotFate = "leaves" // it is freed, and the poller admits waiters for it
	// slotRevoke is for a job that leaves its queue for an operator: it has no slot, and may be admitted. The
	// poller admits a waiter in its place.
	slotRevoke slotFate = "revokes"
)

func (s *slot) part(lockFate) part {
	p := part{name: string(s.as), width: 1, of: s.of}
	switch s.as {
	case slotFree:
		p.width = 3
	case slotWait:
		p.width = 4
	}
	return p
}

func (s *slot) keys(k Keys) []string {
	if s.as == slotRevoke {
		return []string{k.Gates(), k.Admitted(), k.Waiting()}
	}
	keys := []string{k.Gates(), k.Slots(s.identity), k.Admitted(), k.Waiting(), k.Limits()}
	if s.as == slotFree {
		keys = append(append(keys, k.Paused(), k.Queues()), k.QueueLists(s.queues)...)
	}
	return keys
}

func (s *slot) key(Keys) string { return "" }

func (s *slot) appendTo(k Keys, keys, args []string) ([]string, []string) {
	args = append(args, s.sum)
	if s.gate == nil || s.as == slotKeep {
		return keys, args
	}
	own := s.gate.keysOf(k)
	if last := len(keys) - len(own); last < 0 || keys[last] != own[0] { // most jobs of a call have one gate
		keys = append(keys, own...)
	}
	args = append(args, s.gate.Name, strconv.Itoa(len(keys)-len(own)+1))
	if s.as == slotWait {
		args = append(args, millis(s.stop))
	}
	return keys, args
}

// Waits names the gate whose waiting list a job leaves because an operator moves it.
type Waits struct{ Gate string }

func (w *Waits) part(lockFate) part { return part{name: "waiter", of: w.Gate} }

func (w *Waits) keys(k Keys) []string { return []string{k.Waiting(), k.WaitingList(w.Gate)} }

func (w *Waits) key(Keys) string { return "" }

func (w *Waits) appendTo(_ Keys, keys, args []string) ([]string, []string) { return keys, args }
