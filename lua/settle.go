package lua

import (
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/job"
)

var settleScript = load("settle")

// keepDay is how long a day's counters stay, as in Ruby since 5.2: five years.
const keepDay = 5 * 365 * 24 * time.Hour

// daySeconds is keepDay as an argument of scripts.
var daySeconds = wholeSeconds(keepDay)

// MaxUnread is how many batches of one identity may be unanswered: the script keeps that many verdicts.
const MaxUnread = 8

// A Settled is the end of one run: of the job with these bytes, taken from this queue, or from its
// quarantine.
type Settled struct {
	Queue       string
	Quarantined bool
	Bytes       string
	Outcome     job.Outcome
	// Last lets a quarantined job that is requeued be the last one of its quarantine, because it may not start
	// now: otherwise it would keep those behind it from being taken.
	Last bool
	// Gate is set if a start of the run with this gate was sent. The run's slot is freed, or stays with the job
	// if the job goes back to its queue. An Outcome of job.Waits requires it.
	Gate *Gate
	// Owned is what the end of the run affects. The lock is freed if the job has ended, and renewed if not.
	Owned
	// Index is the caller's own; Settle carries it along when it reorders.
	Index int
}

// A Settlement is one batch of ends, numbered so that it may be sent again.
type Settlement struct {
	// Identity is the owner of the working lists into which the jobs were taken.
	Identity string
	// Number counts the batches of Identity from 1. Mark is the lowest number whose answer has not been read,
	// this one included; Number is below Mark+MaxUnread.
	Number, Mark int64
	Jobs         []Settled
	// NearNewest, if set, reports whether these jobs of one list are nearer to its newest job than to its
	// oldest one. It decides at which end the search for them begins, and only saves time.
	NearNewest func(jobs []Settled) bool
	// Queues are those that the process takes from: the waiters that the ends of runs admit go to them. The
	// poller admits waiters of other queues. They are used only for jobs with a Gate.
	Queues []string
	// Today is the instant by Redis' clock whose UTC day the counters belong to.
	Today time.Time
}

// SettleWord is the outcome of a settle.
type SettleWord string

// The results of a settle.
const (
	SettleSettled SettleWord = "settled" // each job is where its outcome requires, except those that were lost
	SettleRefused SettleWord = "refused" // this number was answered and acknowledged long ago
)

// SettleVerdict is the result of a Settlement.
type SettleVerdict struct {
	Word SettleWord
	// Lost are positions in Jobs (from 0) of jobs that the process had lost; nothing was written for them.
	Lost []int
}

// A settleGroup has the common properties of neighbouring jobs, which the script gets once.
type settleGroup struct {
	origin            origin
	exit              job.Exit
	processed, failed bool
	owned             ownedKind
}

// An origin is where a job was taken from. It determines in which list the job is, and where it goes when it is
// requeued.
type origin struct {
	queue string
	alone bool
}

// lists returns the working list and the list of waiting jobs.
func (k Keys) lists(from origin, identity string) (hand, waiting string) {
	if from.alone {
		return k.QuarantineRun(identity), k.Quarantine(from.queue)
	}
	return k.Working(from.queue, identity), k.Queue(from.queue)
}

// Settle ends the runs of a batch. The caller keeps within MaxItems and MaxBytes. Requeued jobs come to the
// head of their queue in the order given, the last one first in line.
//
// The positions in the verdict are those of s.Jobs, which Settle may reorder to group similar jobs.
func (k Keys) Settle(s Settlement) Ask[SettleVerdict] {
	keys := []string{
		k.Record(s.Identity), k.Retry(), k.Schedule(), k.Dead(), k.Processed(), k.Failed(), k.ProcessedOn(s.Today), k.FailedOn(s.Today),
	}
	args := make([]string, 0, 13+len(s.Jobs)*2)
	args = append(args, strconv.FormatInt(s.Number, 10), strconv.FormatInt(s.Mark, 10))
	args = append(args, k.deadLimits()...)
	args = append(args, daySeconds, strconv.Itoa(MaxUnread))

	s.setSlots()
	pairs := make(map[origin]int, 1)
	keys = k.settleLists(keys, pairs, s)
	for group, jobs := range groups(s.Jobs) {
		args = append(args, string(group.exit), strconv.Itoa(pairs[group.origin]), bit(group.processed), bit(group.failed), s.searchFrom(jobs))
		keys, args = appendOwned(k, keys, args, group.owned, jobs, (*Settled).owns, appendSettled)
	}
	return asking(settleScript, keys, args, readSettle)
}

// searchFrom returns at which end of their list the search for these jobs begins, as LREM counts.
func (s *Settlement) searchFrom(jobs []Settled) string {
	if s.NearNewest != nil && s.NearNewest(jobs) {
		return "1"
	}
	return "-1"
}

// setSlots sets what becomes of the slots of jobs with a gate.
func (s *Settlement) setSlots() {
	names := ""
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Gate == nil {
			continue
		}
		if names == "" {
			names = strings.Join(s.Queues, "\n")
		}
		// A job of the quarantine leaves its slot there: it may not start soon.
		j.slot = &slot{as: slotFree, identity: s.Identity, sum: sumOf(j.Bytes), of: names, queues: s.Queues, gate: j.Gate}
		switch exit := j.Outcome.Exit(); {
		case exit == job.ExitWaits:
			j.slot.as, j.slot.of, j.slot.stop = slotWait, "", j.Outcome.After()
			if !j.Quarantined {
				j.slot.of = j.Queue
			}
		case exit == job.ExitRequeued && !j.Quarantined:
			j.slot.as, j.slot.of = slotKeep, j.Queue
		}
	}
}

// settleLists adds the lists of all jobs to the keys, and records their positions, counted from 1, in pairs.
func (k Keys) settleLists(keys []string, pairs map[origin]int, s Settlement) []string {
	var last origin // most batches are of one queue
	for _, settled := range s.Jobs {
		from := origin{settled.Queue, settled.Quarantined}
		if from != last && pairs[from] == 0 {
			pairs[from] = len(pairs) + 1
			hand, waiting := k.lists(from, s.Identity)
			keys = append(keys, hand, waiting)
		}
		last = from
	}
	return keys
}

func (s *Settled) owns() *Owned { return &s.Owned }

// exitLast is the script's word for a job that becomes the last one of its quarantine.
const exitLast job.Exit = "last"

func groupOf(s *Settled) settleGroup {
	exit, fate := s.Outcome.Exit(), lockHold
	if exit.Ends() {
		fate = lockFree
	}
	if s.Quarantined && (exit == job.ExitWaits || exit == job.ExitRequeued && s.Last) { // it waits in the quarantine only
		exit = exitLast
	}
	group := settleGroup{origin: origin{s.Queue, s.Quarantined}, exit: exit, owned: s.kind(fate)}
	group.processed, group.failed = s.Outcome.Counts()
	return group
}

// groups reorders jobs by group, keeps the order inside each, and yields the groups. Most batches are one group
// already, and a batch has few groups, so it scans the batch instead of sorting it.
func groups(jobs []Settled) iter.Seq2[settleGroup, []Settled] {
	return func(yield func(settleGroup, []Settled) bool) {
		for len(jobs) > 0 {
			group, next := groupOf(&jobs[0]), 1
			for at := next; at < len(jobs); at++ {
				if !jobs[at].plainLike(&jobs[0]) && groupOf(&jobs[at]) != group {
					continue
				}
				if at > next {
					moved := jobs[at]
					copy(jobs[next+1:at+1], jobs[next:at])
					jobs[next] = moved
				}
				next++
			}
			if !yield(group, jobs[:next]) {
				return
			}
			jobs = jobs[next:]
		}
	}
}

// plainLike reports whether nothing belongs to either job and both are of one group. Nearly all jobs are, and
// their groups are not compared field by field.
func (s *Settled) plainLike(other *Settled) bool {
	return s.Queue == other.Queue && s.Quarantined == other.Quarantined && s.Last == other.Last && s.Outcome.Like(other.Outcome) &&
		s.Owned == (Owned{}) && other.Owned == (Owned{})
}

func appendSettled(args []string, s *Settled) []string {
	args = append(args, s.Bytes)
	if s.Outcome.Exit().Carries() {
		args = append(args, s.Outcome.Payload(), seconds(s.Outcome.After()))
	}
	return args
}

func readSettle(r reader) (verdict SettleVerdict, err error) {
	verdict.Word = SettleWord(r.text())
	for r.more() {
		verdict.Lost = append(verdict.Lost, r.position())
	}
	return verdict, r.end()
}
