package belaytest

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/job/seal"
)

// A Waiting is a job that waits to run.
type Waiting struct {
	Job *belay.Job
	// Queue is the queue in which the job waits, or will wait when it is due.
	Queue string
	// At is when the job is due; zero for a job that is in its queue.
	At time.Time
	// Retry reports whether the job waits for a retry.
	Retry bool
	// Limit is the name of the limit at which the job waits for a slot, or because of RateLimited; "" for other
	// jobs.
	Limit string
	// pushed is the job as the Kit's client pushed it; zero if something else pushed it.
	pushed belay.RawJob
}

// String returns the job in one line, such as
//
//	WelcomeEmail [42,"short"] in queue mail
func (w Waiting) String() string {
	text := fmt.Sprintf("%s %s in queue %s", w.Job.DisplayClass(), seal.Shown(w.Job), w.Queue)
	switch {
	case w.Limit != "":
		text += ", waits for the limit " + w.Limit
	case w.Retry:
		text += fmt.Sprintf(", retry %d due in %v", w.Job.FailedRuns(), w.due())
	case !w.At.IsZero():
		text += fmt.Sprintf(", due in %v", w.due())
	}
	return text
}

func (w Waiting) due() time.Duration { return time.Until(w.At).Round(time.Millisecond) }

// Waiting returns all waiting jobs: first those in queues, queue by queue and oldest first, then those that
// wait for a limit, then scheduled jobs and then retries, each in the order in which they come due. Running
// jobs are not included.
func (k *Kit) Waiting() []Waiting {
	var all []Waiting
	queues := k.list("SMEMBERS", k.keys.Queues())
	slices.Sort(queues)
	for _, queue := range queues {
		payloads := k.list("LRANGE", k.keys.Queue(queue), "0", "-1")
		for _, payload := range slices.Backward(payloads) {
			all = append(all, k.withPush(Waiting{Job: k.parse(payload), Queue: queue}))
		}
	}
	all = append(all, k.atGates()...)
	for _, set := range []string{k.keys.Schedule(), k.keys.Retry()} {
		for payload, at := range k.set(set) {
			j := k.parse(payload)
			all = append(all, k.withPush(Waiting{Job: j, Queue: j.Queue(), At: at, Retry: set == k.keys.Retry()}))
		}
	}
	return all
}

// withPush returns w with the job as it was pushed.
func (k *Kit) withPush(w Waiting) Waiting {
	k.mu.Lock()
	defer k.mu.Unlock()
	w.pushed = k.pushed[w.Job.JID()]
	return w
}

// Dead returns the jobs in the dead set, in the order in which they died.
func (k *Kit) Dead() []*belay.Job {
	var dead []*belay.Job
	for payload := range k.set(k.keys.Dead()) {
		dead = append(dead, k.parse(payload))
	}
	return dead
}

// set returns the entries of a sorted set, with their scores as instants.
func (k *Kit) set(key string) iter.Seq2[string, time.Time] {
	entries := k.list("ZRANGE", key, "0", "-1", "WITHSCORES")
	return func(yield func(string, time.Time) bool) {
		for pair := range slices.Chunk(entries, 2) {
			score, err := strconv.ParseFloat(pair[1], 64)
			if err != nil {
				panic("belaytest: a score is not a number: " + pair[1])
			}
			if !yield(pair[0], time.UnixMicro(int64(math.Round(score*1e6)))) {
				return
			}
		}
	}
}

// parse panics on invalid JSON: only this package's client and scripts write here.
func (k *Kit) parse(payload string) *belay.Job {
	parsed, err := job.Parse(payload)
	if err != nil {
		panic("belaytest: " + err.Error())
	}
	return parsed
}
