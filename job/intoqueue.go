package job

import "time"

// DefaultQueue is where a job goes that names no queue, in Ruby too.
const DefaultQueue = "default"

// QueueOrDefault returns the queue that the payload names, DefaultQueue if it names none.
func (j *Job) QueueOrDefault() string {
	if queue := j.Queue(); queue != "" {
		return queue
	}
	return DefaultQueue
}

// IntoQueue returns what changes in the envelope of a job that exists on its way into a queue at now, which is written in unit u.
// Its args are not touched.
func (j *Job) IntoQueue(now time.Time, u TimeUnit) []Edit {
	edits := []Edit{SetStamp("enqueued_at", now, u)}
	if j.Queue() == "" {
		edits = append(edits, SetString("queue", DefaultQueue))
	}
	if _, ok := j.Field("at"); ok {
		// A client that left it in has stored the job under it already; Ruby would schedule the job again.
		edits = append(edits, Remove("at"))
	}
	return edits
}
