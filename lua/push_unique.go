package lua

import (
	"strconv"
	"strings"
	"time"
)

var pushUniqueScript = load("push_unique")

// PushUnique is Push for jobs that may need a lock or join a batch: it stores each job that gets its lock or
// needs none, in order, or with PushOver none. A member whose jid is pending in the batch is not stored again.
func (k Keys) PushUnique(key *IdempotencyKey, jobs []NewJob) Ask[Pushed] {
	keys := append(make([]string, 0, 6+2*len(jobs)), k.Queues(), k.Schedule(), k.Unique(), k.Refusals())
	args := append(make([]string, 0, 10+3*len(jobs)), key.args()...)
	if key != nil {
		keys = append(keys, key.Scope)
	}
	locks := k.locks(jobs)
	for group, jobs := range alike(jobs, uniqueGroupOf) {
		if group.when == "now" {
			keys = append(keys, k.Queue(group.queue))
		}
		hold := ""
		if group.locked {
			hold = millis(group.hold)
		}
		keyHold := ""
		if group.keyed {
			keyHold = millis(group.keyHold)
		}
		args = append(args, group.when, group.seconds, group.queue, hold, group.duplicate,
			bit(group.leaves), group.state, group.batch, wholeSeconds(KeepBatch), keyHold, strconv.Itoa(len(jobs)))
		for _, j := range jobs {
			args = append(args, j.Job)
			if j.Lock != nil {
				keys, locks = append(keys, locks[0]), locks[1:]
				args = append(args, j.Lock.Digest, j.Lock.Owner)
			}
			if group.leaves {
				args = append(args, j.WAL)
			}
			if group.keyed {
				args = append(args, j.Key.Digest)
			}
		}
		for n := 0; group.keyed && n < len(jobs); n++ {
			keys = append(keys, k.Lock(jobs[n].Key.Digest))
		}
		if group.batch != "" {
			for _, j := range jobs {
				args = append(args, j.Member.JID)
			}
			keys = append(keys, k.Batch(group.batch), k.BatchPending(group.batch), k.Batches())
		}
	}
	return asking(pushUniqueScript, keys, args, func(r reader) (Pushed, error) {
		p := Pushed{Word: r.text(), Holders: r.texts()}
		if len(p.Holders) == 0 && p.Word == PushStored {
			p.Holders = make([]string, len(jobs))
		}
		return p, r.end()
	})
}

// locks returns the keys of the jobs' locks: parts of one string, because a bulk push needs many of them.
func (k Keys) locks(jobs []NewJob) []string {
	var all strings.Builder
	ends := make([]int, 0, len(jobs))
	for i := range jobs {
		if lock := jobs[i].Lock; lock != nil {
			all.WriteString(k.prefix)
			all.WriteString(lockName)
			all.WriteString(lock.Digest)
			ends = append(ends, all.Len())
		}
	}
	keys, start := make([]string, len(ends)), 0
	for i, end := range ends {
		keys[i], start = all.String()[start:end], end
	}
	return keys
}

// A uniqueGroup has the common properties of several jobs, which the script gets once.
type uniqueGroup struct {
	when, seconds, queue string
	locked               bool
	hold                 time.Duration
	duplicate            string // what to do with one
	leaves               bool   // positions, if it is not stored
	state                string // in which locks are taken: see unlock.lua
	batch                string // the id of the batch that the jobs join; "" for none
	keyed                bool   // they have keys
	keyHold              time.Duration
}

func uniqueGroupOf(j *NewJob) uniqueGroup {
	group := uniqueGroup{duplicate: "refuse", state: "-"}
	if group.when, group.seconds = j.due(); group.when == "now" {
		group.queue = j.Queue
	}
	if j.Lock != nil {
		group.locked, group.hold, group.leaves = true, j.Lock.Hold, j.WAL != ""
		if j.Lock.Kept {
			group.state = "k"
		}
	}
	if j.Key != nil {
		group.keyed, group.keyHold = true, j.Key.Hold
	}
	if j.Mark {
		group.duplicate = "mark"
	}
	if j.Member != nil {
		group.batch = j.Member.Batch.ID
	}
	return group
}
