package chaosplan

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/integration/history"
)

// Class is that of all jobs; its failures are retried after Backoff. StrangeClass has no handler.
const (
	Class        = "Chaos"
	StrangeClass = "Chaos::Stranger's ☂"
)

// Ticks is a periodic job that each worker has in its code, and TickClass the class of its jobs. The oracle
// judges them.
const (
	Ticks     = "ticks"
	TickClass = "Chaos::Tick"
)

// Queues are those of the workers, the first one first, strictly.
var Queues = []string{"high", "default", "low"}

// MinBackoff and MaxBackoff bound how long a failed job waits.
const (
	MinBackoff = 500 * time.Millisecond
	MaxBackoff = 1500 * time.Millisecond
)

// Executing and Executed are the kinds of unique jobs, by when their locks end. Their ballast is what they are
// known by.
const (
	Executing = "until_executing"
	Executed  = "until_executed"
)

// Cancelled are jobs that an operator cancels right after their push.
const Cancelled = "cancelled"

// Checkpointed jobs go over items and save a cursor. Some of them fail on the way.
const Checkpointed = "checkpointed"

// A sort is a kind of jobs and how often it is drawn, of a thousand.
type sort struct {
	kind  string
	share int
	make  func(d *dice) history.Spec
}

// sorts are all kinds but the long one, whose share the settings say. Killers are few: each takes a worker with
// it, and the jobs in hand there.
var sorts = []sort{
	{"plain", 520, func(d *dice) history.Spec { return d.spec(200) }},
	{"fails", 130, func(d *dice) history.Spec { return d.first(1+d.IntN(3), history.Failed) }},
	{"dies", 50, func(d *dice) history.Spec {
		s := d.always(history.Failed)
		s.Retries = 2
		return s
	}},
	{"scheduled", 130, func(d *dice) history.Spec {
		s := d.spec(100)
		s.DelayMillis = 1 + d.upTo(d.Ahead)
		return s
	}},
	{"asks", 50, func(d *dice) history.Spec {
		return d.first(1+d.IntN(2), []string{history.Snoozed, history.Later, history.Discarded, history.Killed}[d.IntN(4)])
	}},
	{"breaks", 50, func(d *dice) history.Spec {
		return d.first(1+d.IntN(2), []string{history.Panics, history.Exits}[d.IntN(2)])
	}},
	{"kills once", 2, func(d *dice) history.Spec { return d.kills(1) }},
	{"kills always", 1, func(d *dice) history.Spec { return d.kills(-1) }},
	{"monster", 15, func(d *dice) history.Spec {
		s := d.spec(20)
		s.Ballast = monsters[d.IntN(len(monsters))]
		return s
	}},
	{"raw", 30, func(d *dice) history.Spec {
		s := d.spec(50)
		if d.IntN(3) == 0 {
			s.DelayMillis = 1 + d.upTo(d.Ahead)
		}
		return s
	}},
	{"stranger", 5, func(d *dice) history.Spec { return history.Spec{} }},
	{Cancelled, 30, func(d *dice) history.Spec { return d.spec(1500) }},
	{Checkpointed, 20, (*dice).items},
	{Checkpointed + ", fails", 10, func(d *dice) history.Spec {
		s := d.items()
		s.Outcomes = d.first(1+d.IntN(2), history.Failed).Outcomes
		return s
	}},
	{Executing, 50, (*dice).unique},
	{Executed, 50, (*dice).unique},
}

// dice draws specifications.
type dice struct {
	*rand.Rand
	Settings
}

func (d *dice) upTo(most time.Duration) int { return d.IntN(int(most/time.Millisecond) + 1) }

func (d *dice) spec(most int) history.Spec {
	return history.Spec{Millis: 1 + d.IntN(most), Retries: -1}
}

func (d *dice) first(times int, outcome string) history.Spec {
	s := d.spec(50)
	for range times {
		s.Outcomes = append(s.Outcomes, outcome)
	}
	return s
}

func (d *dice) always(outcome string) history.Spec {
	s := d.spec(50)
	s.Always = outcome
	return s
}

func (d *dice) kills(times int) history.Spec {
	s := d.spec(50)
	s.Kills = times
	return s
}

// unique is one of four of its kind, and sometimes fails first.
func (d *dice) unique() history.Spec {
	s := d.spec(300)
	s.Ballast = json.RawMessage(strconv.Itoa(d.IntN(4)))
	if d.IntN(5) == 0 {
		s.Outcomes = []string{history.Failed}
	}
	return s
}

// items takes up to five save intervals, and not longer, because many of its kind wait for each other in
// quarantine. An item is short: a stop waits for it.
func (d *dice) items() history.Spec {
	s := history.Spec{Millis: 5 + d.IntN(36), Retries: -1}
	s.Items = 2 + d.upTo(5*d.Save)/s.Millis
	return s
}

// long takes from one TTL to the longest, and does not heed its cancellation in a quarter of all cases.
func (d *dice) long() history.Spec {
	s := d.spec(1)
	ttl := float64(d.TTL / time.Millisecond)
	s.Millis = int(ttl * (1 + d.Float64()*(d.Longest-1)))
	s.Deaf = d.IntN(4) == 0
	return s
}

// jobs draws the workload.
func jobs(r *rand.Rand, s Settings) []Job {
	d := &dice{r, s}
	var all []Job
	batch := 0
	for at := 0.0; ; {
		at += r.ExpFloat64() / s.Rate
		if at >= s.Span.Seconds() {
			return all
		}
		j := Job{At: time.Duration(at * float64(time.Second)).Truncate(time.Millisecond), Pusher: r.IntN(s.Pushers), Class: Class, Queue: Queues[r.IntN(len(Queues))]}
		if r.IntN(40) == 0 {
			batch++
			size := 2 + r.IntN(20)
			for range size {
				j.Batch = batch
				all = append(all, d.fill(j, len(all)))
			}
			at += float64(size) / s.Rate
			continue
		}
		all = append(all, d.fill(j, len(all)))
	}
}

// fill draws what a job does. The first ones are of each kind once, so that the shortest run has all of them.
func (d *dice) fill(j Job, n int) Job {
	chosen := sort{kind: "long", make: (*dice).long}
	if n < len(sorts) {
		chosen = sorts[n]
	} else if n > len(sorts) && d.Float64() >= d.Long {
		chosen = weighted(d.Rand, sorts, func(s sort) int { return s.share })
	}
	kind, spec := chosen.kind, chosen.make(d)
	spec.Kind = kind
	j.Token, j.JID, j.Spec = fmt.Sprintf("T-%06d", n), fmt.Sprintf("%016x%08x", d.Uint64(), n), spec
	j.Raw = kind == "raw" && j.Batch == 0
	if kind == "stranger" {
		j.Class = StrangeClass
	}
	return j
}

// weighted draws one of all, each as often as its weight says.
func weighted[T any](r *rand.Rand, all []T, weight func(T) int) T {
	sum := 0
	for _, item := range all {
		sum += weight(item)
	}
	n := r.IntN(sum)
	return all[slices.IndexFunc(all, func(item T) bool { n -= weight(item); return n < 0 })]
}

// monsters are arguments that programs on the way like to change: the numbers by reading them as floats, the
// empty ones in Lua, the rest by escaping or by their size. They use Ruby's spelling, as a push does.
var monsters = []json.RawMessage{
	json.RawMessage(`[9007199254740993,1.0,1.0e+21,-0.0,0.1,1.0e-07]`),
	json.RawMessage(`[[],{},[[]],{"a":[]},null,""]`),
	json.RawMessage(`"é 日本 😀 \u2028 \u0000 </script> & \\ \" /"`),
	json.RawMessage(`{"b":1,"a":2,"":4}`),
	json.RawMessage(strings.Repeat("[", 900) + strings.Repeat("]", 900)),
	json.RawMessage(`"` + strings.Repeat("0123456789abcdef", 200<<10/16) + `"`),
}
