package inspect

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A Queue is one queue of waiting jobs.
type Queue struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// Latency is how long the oldest job has been waiting; 0 if there is none, or if its payload has no time.
	Latency Seconds `json:"latency_seconds"`
	// Paused reports that workers of Belay (and of Sidekiq Pro) take nothing from it.
	Paused bool `json:"paused"`
	// Quarantined counts its jobs that wait to run alone, because too many processes crashed while running
	// them. QuarantinedFor is how long the next of them has been waiting. They are not in Size.
	Quarantined    int64   `json:"quarantined"`
	QuarantinedFor Seconds `json:"quarantined_seconds"`
	// Waiting counts jobs that wait until a limit lets them start, at gates whose next job is of this queue.
	// They are not in Size, and no further worker could start them.
	Waiting int64 `json:"waiting"`
	// HeldByDead counts its jobs that lapsed workers of Belay hold. A living worker recovers them. They are
	// not in Size.
	HeldByDead int64 `json:"held_by_dead"`
	// NoConsumer reports that there are jobs of any of these kinds and that no living process takes from the
	// queue.
	NoConsumer bool `json:"no_consumer"`
	// Rate is how many runs of its jobs ended in a second, failed ones included, and FailedRate how many of
	// them failed: on average over the current minute and the one before it. Workers of Belay count them, every
	// few seconds. Those of Sidekiq do not.
	Rate       float64 `json:"runs_per_second"`
	FailedRate float64 `json:"failed_per_second"`
}

// Jobs counts its jobs that no processor runs, of all these kinds.
func (q Queue) Jobs() int64 { return q.Size + q.Quarantined + q.Waiting + q.HeldByDead }

// LateAfter is the latency from which on a queue is late. Workers take a job within milliseconds, so a job that
// waits for a minute waits for others.
const LateAfter = time.Minute

// Late reports whether the jobs of the queue wait for longer than LateAfter, although it is not paused.
func (q Queue) Late() bool { return !q.Paused && q.Latency.Duration > LateAfter }

// queuesAtOnce is how many queues one pipeline asks for. Each reply contains the queue's oldest job, which
// may have two megabytes. With fewer queues than this, as in most fleets, one round trip is enough.
const queuesAtOnce = 32

func (i *Inspector) queues(ctx context.Context, r *reading, names []string, now time.Time) []Queue {
	queues := make([]Queue, 0, len(names))
	for page := range slices.Chunk(names, queuesAtOnce) {
		var calls []driver.Call
		for _, name := range page {
			calls = append(calls,
				driver.Command("LLEN", i.keys.Queue(name)),
				driver.Command("LINDEX", i.keys.Queue(name), "-1"),
				driver.Command("LLEN", i.keys.Quarantine(name)),
				driver.Command("LINDEX", i.keys.Quarantine(name), "-1"))
		}
		calls = append(calls, driver.Command(append([]string{"SMISMEMBER", i.keys.Paused()}, page...)...))
		rates := len(calls)
		replies := i.do(ctx, append(calls, i.keys.ReadQueueFigures(page, now)...))
		paused, _ := r.value("paused", replies[rates-1]).([]any)
		for n, name := range page {
			size, oldest, quarantined, next := replies[4*n], replies[4*n+1], replies[4*n+2], replies[4*n+3]
			queue := Queue{Name: name, Size: r.number("queue "+name, size), Paused: n < len(paused) && paused[n] == int64(1)}
			if size.Err == nil {
				queue.Latency = waited(r, "the oldest job of queue "+name, Waiting(name), oldest, now)
			}
			queue.Quarantined = r.number("quarantined jobs of queue "+name, quarantined)
			if quarantined.Err == nil {
				queue.QuarantinedFor = waited(r, "the next quarantined job of queue "+name, Quarantined(name), next, now)
			}
			queues = append(queues, queue)
		}
		addRates(r, queues[len(queues)-len(page):], replies[rates:], now)
		if r.err != nil {
			break
		}
	}
	return queues
}

// Queue returns a queue of the keyspace whose Status was read before: as Status lists it, or, if it lists
// others, as it is now. listed is false if Redis does not list the queue.
func (i *Inspector) Queue(ctx context.Context, name string, s Status) (queue Queue, listed bool, err error) {
	if at := slices.IndexFunc(s.Queues, func(q Queue) bool { return q.Name == name }); at >= 0 {
		return s.Queues[at], true, nil
	}
	if s.QueueCount <= int64(len(s.Queues)) {
		return Queue{Name: name}, false, nil
	}
	var r reading
	queue = i.queues(ctx, &r, []string{name}, s.At)[0]
	queue.Waiting, queue.HeldByDead = s.unlisted[name].Waiting, s.unlisted[name].HeldByDead
	queue.NoConsumer = s.noConsumer(queue)
	if r.err != nil {
		return queue, false, fmt.Errorf("read queue %s: %w", name, r.err)
	}
	listed, err = i.QueueExists(ctx, name)
	return queue, listed, err
}

// addRates sets the rates of some queues from the replies to lua.Keys.ReadQueueFigures.
func addRates(r *reading, queues []Queue, minutes []driver.Reply, now time.Time) {
	seconds := (time.Minute + now.Sub(now.Truncate(time.Minute))).Seconds()
	for _, minute := range minutes {
		if minute.Err != nil && !driver.Outage(minute.Err) { // the queues themselves can be read
			r.problem("the runs of queues: %v", minute.Err)
			continue
		}
		counts := r.texts("the runs of queues", minute)
		for n := 0; 2*n+1 < len(counts) && n < len(queues); n++ {
			queue := &queues[n]
			queue.Rate += float64(r.count("the runs of queue "+queue.Name, counts[2*n])) / seconds
			queue.FailedRate += float64(r.count("the failed runs of queue "+queue.Name, counts[2*n+1])) / seconds
		}
	}
}

// PerSecond writes a rate for people: 0.02/s, 3.4/s, 120/s; nothing for none.
func PerSecond(rate float64) string {
	digits := 0
	switch {
	case rate <= 0:
		return ""
	case rate < 1:
		digits = 2
	case rate < 10:
		digits = 1
	}
	return strconv.FormatFloat(rate, 'f', digits, 64) + "/s"
}

// waited returns how long the first job of a home has been waiting, by the times that Sidekiq reads; 0 if there
// is none, or if its payload has no time.
func waited(r *reading, what string, home Home, first driver.Reply, now time.Time) Seconds {
	payload, _ := r.value(what, first).(string)
	if payload == "" {
		return Seconds{}
	}
	entry := newEntry(home, lua.Entry{Bytes: payload})
	if entry.parsed == nil {
		r.problem("%s cannot be read: %s", what, entry.Problem)
	}
	return since(entry.Found().Since, now)
}

// since returns how long ago an instant was. It returns 0 for the zero time, and for a time in the future: the
// clock of a producer may be ahead.
func since(at, now time.Time) Seconds {
	if at.IsZero() {
		return Seconds{}
	}
	return Seconds{max(now.Sub(at), 0)}
}
