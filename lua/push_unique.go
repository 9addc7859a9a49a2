package lua

import (
	"strconv"

	"github.com/belayq/belay/job"
)

var pushUniqueScript = load("push_unique")

// A UniqueJob is a new job of a push in which some are unique: for Queue now, or for later.
type UniqueJob struct {
	Queue string
	// Scheduled has its bytes, and when it is due; In and At both zero is now.
	Scheduled
	// Lock is the lock that the job must get to be stored, or nil if it needs none. Its Hold counts from when
	// the job is due.
	Lock *Lock
	// Mark stores a duplicate all the same, with the jid of the lock's holder as the last of its fields,
	// duplicate-of. Its bytes are a JSON object that has a field and not that one.
	Mark bool
	// WAL are the positions in write-ahead logs that the job's database must have replayed: "NAME LSN" in
	// lines. A refused job leaves them with the lock, which keeps the later LSN of each name; see
	// Started.Left.
	WAL string
}

// Later reports whether the job is not for now.
func (j UniqueJob) Later() bool { return j.In > 0 || !j.At.IsZero() }

// PushedUnique is the result of a push of unique jobs.
type PushedUnique struct {
	// Word is PushStored or PushStale.
	Word string
	// Holders has, for each duplicate, the jid of the job that holds its lock; the duplicate was refused or
	// marked. It is "" for any other job: it is stored, now or before with the same jid. After the run of a
	// job has begun and was marked (see Start), another push of it counts as a duplicate of itself.
	Holders []string
}

// PushUnique stores each job that gets its lock or needs none, in order; key is that of Push. A full Redis
// refuses with OOM. The caller keeps within MaxItems and MaxBytes.
func (k Keys) PushUnique(key *IdempotencyKey, jobs []UniqueJob) Ask[PushedUnique] {
	keys := append(make([]string, 0, 6+2*len(jobs)), k.Queues(), k.Schedule(), k.Unique(), k.Refusals())
	args := append(make([]string, 0, 9+3*len(jobs)), key.args()...)
	if key != nil {
		keys = append(keys, key.Scope)
	}
	for group, jobs := range alike(jobs, uniqueGroupOf) {
		if group.when == "now" {
			keys = append(keys, k.Queue(group.queue))
		}
		args = append(args, group.when, group.seconds, group.queue, group.hold, group.duplicate, bit(group.leaves), strconv.Itoa(len(jobs)))
		for _, j := range jobs {
			args = append(args, j.Job)
			if j.Lock != nil {
				keys = append(keys, k.Lock(j.Lock.Digest))
				args = append(args, j.Lock.Digest, j.Lock.Owner)
			}
			if group.leaves {
				args = append(args, j.WAL)
			}
		}
	}
	return asking(pushUniqueScript, keys, args, readPushUnique)
}

// A uniqueGroup has the common properties of several jobs, which the script gets once.
type uniqueGroup struct {
	when, seconds, queue string
	hold                 string // "" for jobs without a lock
	duplicate            string // what to do with one
	leaves               bool   // positions, if it is not stored
}

func uniqueGroupOf(j *UniqueJob) uniqueGroup {
	group := uniqueGroup{when: "now", seconds: "0", queue: j.Queue, duplicate: "refuse"}
	switch {
	case !j.At.IsZero():
		group.when, group.seconds, group.queue = "at", job.Stamp(j.At, job.Seconds), ""
	case j.In > 0:
		group.when, group.seconds, group.queue = "in", seconds(j.In), ""
	}
	if j.Lock != nil {
		group.hold, group.leaves = millis(j.Lock.Hold), j.WAL != ""
	}
	if j.Mark {
		group.duplicate = "mark"
	}
	return group
}

func readPushUnique(r reader) (PushedUnique, error) {
	return PushedUnique{Word: r.text(), Holders: r.texts()}, r.end()
}
