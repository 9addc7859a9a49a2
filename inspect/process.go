package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// State reports whether a process is alive.
type State string

const (
	// StateAlive means that its heartbeats arrive.
	StateAlive State = "alive"
	// StateLapsed means that a process of Belay sent no heartbeat for its TTL, or is dead with jobs still to
	// recover.
	StateLapsed State = "lapsed"
	// StateGone means that only the list entry of a process of Sidekiq is left.
	StateGone State = "gone"
)

// A Process is one worker process of Belay or of Sidekiq. Facts that it does not report are left empty.
type Process struct {
	Identity string `json:"identity"`
	// Process is the same for all sessions of a process that serves several shards; "" for other processes.
	Process string `json:"-"`
	State   State  `json:"state"`
	// Belay reports that it is a process of Belay; others are Ruby's.
	Belay       bool     `json:"belay"`
	Hostname    string   `json:"hostname"`
	PID         int      `json:"pid"`
	Tag         string   `json:"tag"`
	Labels      []string `json:"labels"`
	Version     string   `json:"version"`
	Queues      []string `json:"queues"`
	Concurrency int      `json:"concurrency"`
	// Capsules are its sets of queues, by name; empty if it does not report them, as Sidekiq before 8.0.
	Capsules []Capsule `json:"capsules"`
	// Busy is how many running jobs it reported last.
	Busy  int  `json:"busy"`
	Quiet bool `json:"quiet"`
	// RSS is its resident memory in kilobytes.
	RSS       int       `json:"rss_kb"`
	StartedAt time.Time `json:"started_at,omitzero"`
	// BeatAge is how long ago its last heartbeat was. That of a process of Sidekiq wrote its process record, at
	// an instant of its own clock. It is nil if there was none.
	BeatAge *Seconds `json:"beat_age_seconds"`
	Running []Run    `json:"running"`
}

// A Capsule is a set of queues with a concurrency of its own.
type Capsule struct {
	Name        string `json:"name"`
	Concurrency int    `json:"concurrency"`
	// Mode is strict, weighted or random: the order in which its queues are read. Weights has the weight of
	// each; 0 is none.
	Mode    string         `json:"mode"`
	Queues  []string       `json:"queues"`
	Weights map[string]int `json:"weights"`
}

// fillCapsules sets the capsules, and the queues if only the capsules have them, as from Sidekiq 8.0.9 on.
func (p *Process) fillCapsules(capsules map[string]Capsule) {
	p.Capsules = []Capsule{}
	for _, name := range slices.Sorted(maps.Keys(capsules)) {
		c := capsules[name]
		c.Name, c.Queues = name, orEmpty(slices.Sorted(maps.Keys(c.Weights)))
		if c.Weights == nil {
			c.Weights = map[string]int{}
		}
		// JSON has no order of keys; in the order of the process' queues a strict capsule reads its own.
		slices.SortStableFunc(c.Queues, func(a, b string) int {
			return cmp.Compare(slices.Index(p.Queues, a), slices.Index(p.Queues, b))
		})
		p.Capsules = append(p.Capsules, c)
	}
	if len(p.Queues) == 0 {
		for _, c := range p.Capsules {
			p.Queues = append(p.Queues, c.Queues...)
		}
		p.Queues = sorted(p.Queues)
	}
}

// processesAtOnce is how many processes one pipeline asks for: the running jobs of one may be up to a
// megabyte.
const processesAtOnce = 16

func (i *Inspector) processes(ctx context.Context, r *reading, names []string, now time.Time) []Process {
	processes := make([]Process, 0, len(names))
	running := 0
	for page := range slices.Chunk(names, processesAtOnce) {
		found := i.processPage(ctx, r, page, now)
		if running < maxShown {
			i.runs(ctx, r, found, now)
		}
		for n := range found {
			running += len(found[n].Running)
		}
		processes = append(processes, found...)
		if r.err != nil {
			break
		}
	}
	return processes
}

func (i *Inspector) processPage(ctx context.Context, r *reading, page []string, now time.Time) []Process {
	var calls []driver.Call
	for _, identity := range page {
		calls = append(calls,
			driver.Command("HMGET", i.keys.Process(identity), "info", "busy", "beat", "quiet", "rss", "concurrency"),
			driver.Command("ZSCORE", i.keys.Alive(), identity),
			i.keys.ReadRecord(identity).Call)
	}
	replies := i.do(ctx, calls)
	processes := make([]Process, len(page))
	for n, identity := range page {
		hash, score, recorded := replies[3*n], replies[3*n+1], replies[3*n+2]
		p := &processes[n]
		*p = Process{Identity: identity, Running: []Run{}}
		fields := r.texts("process "+identity, hash)
		p.fill(r, append(fields, make([]string, 6)...), now)
		expiry, _ := r.value("alive", score).(string)
		p.setState(expiry, slices.ContainsFunc(fields, func(field string) bool { return field != "" }), now)
		r.value("the record of "+identity, recorded)
		if record, err := i.keys.ReadRecord(identity).Read(recorded); err == nil && record != nil {
			p.Concurrency = cmp.Or(p.Concurrency, record.Concurrency)
			p.setBeat(expiry, record.TTL, now)
			if len(p.Queues) == 0 {
				p.Queues = record.Queues
			}
		}
		p.Labels, p.Queues = orEmpty(p.Labels), orEmpty(p.Queues)
	}
	return processes
}

// info is what the process reported about itself at its start.
type info struct {
	Hostname    string             `json:"hostname"`
	StartedAt   float64            `json:"started_at"`
	PID         int                `json:"pid"`
	Process     string             `json:"process"`
	Tag         string             `json:"tag"`
	Concurrency int                `json:"concurrency"`
	Queues      []string           `json:"queues"`
	Labels      []string           `json:"labels"`
	Version     string             `json:"version"`
	Capsules    map[string]Capsule `json:"capsules"`
}

// fill reads the process' hash. A field of a wrong type is left empty and the others are read: encoding/json
// continues after such a field.
func (p *Process) fill(r *reading, fields []string, now time.Time) {
	var about info
	if fields[0] != "" {
		if err := json.Unmarshal([]byte(fields[0]), &about); err != nil {
			r.problem("process %s: its info cannot all be read: %v", p.Identity, err)
		}
	}
	p.Process = about.Process
	p.Hostname, p.PID, p.Tag, p.Labels, p.Version = about.Hostname, about.PID, about.Tag, about.Labels, about.Version
	p.StartedAt = instant(about.StartedAt)
	p.Queues = about.Queues
	p.fillCapsules(about.Capsules)
	p.Busy, p.Quiet, p.RSS = atoi(fields[1]), fields[3] == "true", atoi(fields[4])
	p.Concurrency = cmp.Or(atoi(fields[5]), about.Concurrency) // Sidekiq writes the former since 8.1.2, the latter until then
	if beat, err := strconv.ParseFloat(fields[2], 64); err == nil {
		p.BeatAge = &Seconds{max(now.Sub(instant(beat)), 0)}
	}
}

// setState sets State. For a process of Belay, expiry is when its lease ends, in milliseconds; a process of
// Ruby is alive as long as it has a hash.
func (p *Process) setState(expiry string, announced bool, now time.Time) {
	until, err := strconv.ParseFloat(expiry, 64)
	p.Belay = err == nil
	switch {
	case p.Belay && int64(until) > now.UnixMilli(), !p.Belay && announced:
		p.State = StateAlive
	case p.Belay:
		p.State = StateLapsed
	default:
		p.State = StateGone
	}
}

// setBeat sets BeatAge of a process of Belay, whose lease ends a TTL after its last heartbeat. Its process
// record is older: an idle process writes it only every 20 s.
func (p *Process) setBeat(expiry string, ttl time.Duration, now time.Time) {
	if until, err := strconv.ParseFloat(expiry, 64); err == nil {
		p.BeatAge = &Seconds{max(now.Sub(instant(until/1000).Add(-ttl)), 0)}
	}
}

func atoi(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// latest is the last second that JSON can write.
var latest = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// instant reads seconds since 1970; none is the zero time.
func instant(seconds float64) time.Time {
	switch {
	case seconds <= 0:
		return time.Time{}
	case seconds > float64(latest.Unix()): // compared before the conversion, whose result is undefined beyond an int64
		return latest
	}
	return time.UnixMicro(int64(math.Round(seconds * 1e6))).UTC()
}

// writable returns an instant that JSON can write. Another program may have stored an instant beyond the year
// 9999, and the whole list could not be written.
func writable(at time.Time) time.Time {
	switch {
	case at.After(latest):
		return latest
	case at.Before(time.Time{}):
		return time.Time{}
	}
	return at.UTC()
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// takes reports whether a process takes jobs from a queue. A process whose queues are unknown may take from
// any.
func (p *Process) takes(queue string) bool {
	return p.State == StateAlive && !p.Quiet && (len(p.Queues) == 0 || slices.Contains(p.Queues, queue))
}

// WithoutConsumer returns the queues from which no living process of Belay or Sidekiq takes jobs, in the
// given order. A process whose queues are unknown may take any. With more than 1,000 processes it returns
// none, because it would have to read too many. It reads processes in pages and stops once each queue has a
// consumer.
func (i *Inspector) WithoutConsumer(ctx context.Context, queues []string) ([]string, error) {
	var r reading
	replies := i.do(ctx, []driver.Call{
		lua.AskTime,
		driver.Command("SRANDMEMBER", i.keys.Processes(), strconv.Itoa(maxShown+1)),
		driver.Command("ZRANGE", i.keys.Alive(), "0", strconv.Itoa(maxShown)),
	})
	now := r.time(replies[0])
	names := sorted(append(r.texts("processes", replies[1]), r.texts("alive", replies[2])...))
	if len(names) > maxShown {
		return nil, r.err
	}
	left := slices.Clone(queues)
	for page := range slices.Chunk(names, processesAtOnce) {
		for _, p := range i.processPage(ctx, &r, page, now) {
			left = slices.DeleteFunc(left, p.takes)
		}
		if r.err != nil || len(left) == 0 {
			break
		}
	}
	if r.err != nil || len(r.refused) > 0 { // an unreadable process may be a consumer
		return nil, r.err
	}
	return left, nil
}
