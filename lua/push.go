package lua

import (
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

var pushScript = load("push")

// A NewJob is a job of a push: for Queue now, or for later.
type NewJob struct {
	Queue string
	// Job is its bytes.
	Job string
	// In and At are when it is due: after In by Redis' clock, or at At when that is set. Both zero is now.
	In time.Duration
	At time.Time
	// Lock is the lock that the job must get to be stored, or nil if it needs none. Its Hold counts from when
	// the job is due.
	Lock *Lock
	// Key is a second lock that a job with a Lock must get too, or nil. It is Kept, and has the same Owner. A
	// duplicate because of it is not marked.
	Key *Lock
	// Mark stores a duplicate all the same, with the jid of the lock's holder as the last of its fields,
	// duplicate-of. Its bytes are a JSON object that has a field and not that one.
	Mark bool
	// WAL are the positions in write-ahead logs that the job's database must have replayed: "NAME LSN" in
	// lines. A refused job leaves them with the lock, which keeps the later LSN of each name; see
	// Started.Left.
	WAL string
	// Member is the batch that the job joins, if it is stored; nil for none. Its As has no effect.
	Member *Member
}

// Later reports whether the job is not for now.
func (j *NewJob) Later() bool { return j.In > 0 || !j.At.IsZero() }

// due returns when the job is due, as the scripts get it.
func (j *NewJob) due() (when, text string) {
	switch {
	case !j.At.IsZero():
		return "at", job.Stamp(j.At, job.Seconds)
	case j.In > 0:
		return "in", seconds(j.In)
	}
	return "now", "0"
}

// An IdempotencyKey identifies a push that may be sent again. Redis keeps only the last push of each scope.
type IdempotencyKey struct {
	// Scope is the name of the scope in Redis; see Keys.IdempotencyScope.
	Scope string
	// Number is above that of every earlier push in the scope.
	Number int64
	// Mark distinguishes this push from another one with its number. It is drawn once for a push.
	Mark string
	// Remember is how long the scope is kept after the push was stored.
	Remember time.Duration
}

// args are the arguments with which a script gets the key; all are empty if there is none.
func (k *IdempotencyKey) args() []string {
	if k == nil {
		return []string{"", "", ""}
	}
	return []string{strconv.FormatInt(k.Number, 10), k.Mark, millis(k.Remember)}
}

// The results of a push that was not refused.
const (
	// PushStored says that the jobs are stored, by this call or by an earlier one with the same IdempotencyKey.
	PushStored = "pushed"
	// PushStale says that this call stored nothing, because its scope has a later push, or another one with
	// this number. An earlier call with the same IdempotencyKey may have stored the jobs.
	PushStale = "stale"
	// PushOver says that this call of PushUnique stored nothing, because the batch of a job is over, or does
	// not exist.
	PushOver = "over"
)

// Pushed is the result of a push.
type Pushed struct {
	// Word is PushStored, PushStale or PushOver.
	Word string
	// Holders is for PushUnique. It has, for each duplicate, the jid of the job that holds its lock; the
	// duplicate was refused or marked. It is "" for any other job: it is stored, now or before with the same
	// jid. After the run of a job has begun and was marked (see Start), another push of it counts as a
	// duplicate of itself; with a Kept lock it always does.
	Holders []string
}

// Push stores jobs that need no lock, each at the back of its queue or in the schedule: all of them or none.
// With an IdempotencyKey, which may be nil, they are stored once, however often the call is sent while the
// scope is kept. A full Redis refuses with OOM. The caller keeps within MaxItems and MaxBytes.
func (k Keys) Push(key *IdempotencyKey, jobs []NewJob) Ask[Pushed] {
	var later, queues []string
	var batches [][]string // the jobs of each queue
	for i := range jobs {
		j := &jobs[i]
		if when, seconds := j.due(); when != "now" {
			later = append(later, when, seconds, j.Job)
			continue
		}
		at := slices.Index(queues, j.Queue)
		if at < 0 {
			at = len(queues)
			queues, batches = append(queues, j.Queue), append(batches, make([]string, 0, len(jobs)))
		}
		batches[at] = append(batches[at], j.Job)
	}
	keys := []string{k.Queues(), k.Schedule()}
	if key != nil {
		keys = append(keys, key.Scope)
	}
	args := append(make([]string, 0, 4+len(later)+2*len(queues)+len(jobs)), key.args()...)
	args = append(append(args, strconv.Itoa(len(later)/3)), later...)
	for at, queue := range queues {
		keys = append(keys, k.Queue(queue))
		args = append(append(args, queue, strconv.Itoa(len(batches[at]))), batches[at]...)
	}
	return asking(pushScript, keys, args, func(r reader) (Pushed, error) { return Pushed{Word: r.text()}, r.end() })
}

// PushOne returns the calls that store jobs of one queue, for now, at its back, all or none. It needs no
// script: LPUSH is atomic. The reply to the last call is that of the jobs. The queue's name is stored first,
// as in Ruby: a name without jobs does no harm, and operators would not see jobs without a name.
func (k Keys) PushOne(jobs []NewJob) []driver.Call {
	queue := jobs[0].Queue
	words := append(make([]string, 0, 2+len(jobs)), "LPUSH", k.Queue(queue))
	for i := range jobs {
		words = append(words, jobs[i].Job)
	}
	return []driver.Call{driver.Command("SADD", k.Queues(), queue), driver.Command(words...)}
}
