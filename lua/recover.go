package lua

import (
	"cmp"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
)

var recoverScript = load("recover")

// Home is the destination of an orphan.
type Home string

// The homes of an orphan.
const (
	HomeQueue      Home = "queue"      // the head of its queue
	HomeQuarantine Home = "quarantine" // the head of its queue's quarantine
	HomeDead       Home = "dead"       // the dead set
)

// An Orphan is one entry of a dead process' list, with its new bytes.
type Orphan struct {
	// Old are its bytes in the list, New those in its next home.
	Old, New string
	// Home is HomeQueue when it is empty.
	Home Home
	// Owned is what the crash affects. The lock is renewed if the job continues, and freed if it ends. The
	// state is that of a tracked job that goes to the dead set.
	Owned
}

// Orphans are entries of one list of a dead process, in the list's own order, newest first: of the working list
// of Queue or, with Quarantined, of the list of the process' quarantined job, which came from Queue.
type Orphans struct {
	Queue       string
	Quarantined bool
	Entries     []Orphan
}

// Recovered is the result of a recovery.
type Recovered struct {
	// State is StateDead if the process was declared dead, by this call or before. With StateAlive and
	// StateUnknown nothing was written.
	State State
	// Left is how many jobs are still in its lists, Moved how many this call moved.
	Left, Moved int
}

// Absence is the evidence that a process died although its session has not lapsed: two looks found its
// subscription gone.
type Absence struct {
	// Expiry is the expiry of its session at both looks: no heartbeat has moved it.
	Expiry time.Time
	// LookedAt is Redis' time at the second look. The evidence holds for half a second.
	LookedAt time.Time
}

// args are the arguments of script recover, of which nil has none.
func (a *Absence) args(channel string) []string {
	if a == nil {
		return []string{"", "", ""}
	}
	return []string{strconv.FormatInt(a.Expiry.UnixMilli(), 10), strconv.FormatInt(a.LookedAt.UnixMilli(), 10), channel}
}

// DeclareDead declares identity dead if this evidence still holds and its session has not lapsed, which is
// evidence of another kind. It moves no jobs.
func (k Keys) DeclareDead(identity string, queues []string, absence Absence, today time.Time) Ask[Recovered] {
	return k.recovering(identity, queues, &absence, nil, today)
}

// Recover declares identity dead, if it has lapsed, and moves these entries of its lists. queues are all its
// queues. Without entries it only declares identity dead, because its lists are empty. Each entry that it moves
// to the dead set counts as a failed run on the UTC day of today, by Redis' clock. The caller keeps within
// MaxItems and MaxBytes.
func (k Keys) Recover(identity string, queues []string, orphans []Orphans, today time.Time) Ask[Recovered] {
	return k.recovering(identity, queues, nil, orphans, today)
}

func (k Keys) recovering(identity string, queues []string, absence *Absence, orphans []Orphans, today time.Time) Ask[Recovered] {
	keys := []string{
		k.Alive(), k.Tombstones(), k.Record(identity), k.Dead(),
		k.Processes(), k.Process(identity), k.Work(identity), k.Workers(identity), k.QuarantineRun(identity),
		k.Processed(), k.Failed(), k.ProcessedOn(today), k.FailedOn(today),
	}
	triples := make(map[string]int, len(queues))
	for i, queue := range queues {
		triples[queue] = i + 1
		keys = append(keys, k.Working(queue, identity), k.Queue(queue), k.Quarantine(queue))
	}
	args := append([]string{identity, strconv.Itoa(len(queues)), daySeconds}, k.deadLimits()...)
	args = append(append(args, absence.args(k.Presence(identity))...), queuesField(queues))
	for _, list := range orphans {
		list.setSlots(identity)
		keys, args = k.appendOrphans(keys, args, triples[list.Queue], list)
	}
	return asking(recoverScript, keys, args, readRecovered)
}

// setSlots sets what becomes of the slots of these entries. Whether they have any is in Redis.
func (o Orphans) setSlots(identity string) {
	for i := range o.Entries {
		entry := &o.Entries[i]
		entry.slot = &slot{as: slotLeave, identity: identity, sum: sumOf(entry.Old)}
		if cmp.Or(entry.Home, HomeQueue) == HomeQueue {
			entry.slot.as, entry.slot.of = slotKeep, o.Queue
		}
	}
}

// RecoverForeign calls a script for jobs that a dead process of another system holds: it moves these entries
// of list to the head of their queue, or to the dead set, unless one of these heartbeats exists. Without
// entries it only reports whether one exists. Each entry that it moves to the dead set counts as a failed run
// on the UTC day of today, by Redis' clock. The caller keeps within MaxItems and MaxBytes.
//
// script comes from NewScript and includes orphans. Its keys are list, the list of the queue, queues, dead,
// the counters processed and failed in total and of today, and the heartbeats. Its
// arguments are the name of the queue, the seconds to keep a day's counters, how many heartbeats there are,
// both limits of the dead set, and groups as of recover. It returns {"alive"}, or {"recovered", jobs left in
// list, jobs moved}.
func (k Keys) RecoverForeign(script *driver.Script, list string, heartbeats []string, orphans Orphans, today time.Time) Ask[Recovered] {
	keys := append([]string{
		list, k.Queue(orphans.Queue), k.Queues(), k.Dead(), k.Processed(), k.Failed(), k.ProcessedOn(today), k.FailedOn(today),
	}, heartbeats...)
	args := append([]string{orphans.Queue, daySeconds, strconv.Itoa(len(heartbeats))}, k.deadLimits()...)
	keys, args = k.appendOrphans(keys, args, 1, orphans)
	return asking(script, keys, args, readRecovered)
}

// AnnounceOrphans returns the call that notifies the callers that wait for those of these jobs that died;
// none if no caller waits for any.
func (k Keys) AnnounceOrphans(entries []Orphan) []driver.Call {
	var ended []string
	for _, orphan := range entries {
		if orphan.State != nil {
			ended = append(ended, orphan.State.JID)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	return []driver.Call{k.AnnounceEnded(ended)}
}

// appendOrphans adds the groups that name these jobs; triple is the position of their lists.
func (k Keys) appendOrphans(keys, args []string, triple int, list Orphans) ([]string, []string) {
	hand := "working"
	if list.Quarantined {
		hand = "quarantined"
	}
	for like, entries := range alike(list.Entries, orphanKindOf) {
		args = append(args, strconv.Itoa(triple), hand, string(cmp.Or(like.home, HomeQueue)))
		keys, args = appendOwned(k, keys, args, like.owned, entries, (*Orphan).owns, func(args []string, o *Orphan) []string {
			return append(args, o.Old, o.New)
		})
	}
	return keys, args
}

// An orphanKind has the common properties of several orphans, which the script gets once.
type orphanKind struct {
	home  Home
	owned ownedKind
}

func orphanKindOf(o *Orphan) orphanKind {
	if o.Home == HomeDead {
		return orphanKind{o.Home, o.kind(lockFree)}
	}
	return orphanKind{o.Home, o.kind(lockHold)}
}

func (o *Orphan) owns() *Owned { return &o.Owned }

func readRecovered(r reader) (answer Recovered, err error) {
	if word := r.text(); word != "recovered" {
		return Recovered{State: State(word)}, r.end()
	}
	return Recovered{State: StateDead, Left: r.number(), Moved: r.number()}, r.end()
}
