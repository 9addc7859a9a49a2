package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// State is whether a process lives.
type State string

const (
	// StateAlive says that its beats arrive.
	StateAlive State = "alive"
	// StateLapsed says that a process of Belay has not beaten for its TTL, or is dead with jobs still to be recovered.
	StateLapsed State = "lapsed"
	// StateGone says that a process of Sidekiq has left the list's entry and nothing else.
	StateGone State = "gone"
)

// A Process is one worker process, of Belay or of Sidekiq. What it does not say about itself is left empty.
type Process struct {
	Identity string `json:"identity"`
	State    State  `json:"state"`
	// Belay says that it is one of ours; others are Ruby's.
	Belay       bool     `json:"belay"`
	Hostname    string   `json:"hostname"`
	PID         int      `json:"pid"`
	Tag         string   `json:"tag"`
	Labels      []string `json:"labels"`
	Version     string   `json:"version"`
	Queues      []string `json:"queues"`
	Concurrency int      `json:"concurrency"`
	// Busy is how many jobs it last said it was running.
	Busy  int  `json:"busy"`
	Quiet bool `json:"quiet"`
	// RSS is its resident memory in kilobytes.
	RSS       int       `json:"rss_kb"`
	StartedAt time.Time `json:"started_at,omitzero"`
	// BeatAge is how long ago it last announced itself, by its own clock; nil when it never said. Belay announces itself
	// every few seconds, whatever its beat.
	BeatAge *Seconds `json:"beat_age_seconds"`
	Running []Run    `json:"running"`
}

// processesAtOnce is how many processes one pipeline asks for: what each runs may be up to a megabyte.
const processesAtOnce = 16

func (i *Inspector) processes(ctx context.Context, r *reading, names []string, now time.Time) []Process {
	processes := make([]Process, 0, len(names))
	running := 0
	for page := range slices.Chunk(names, processesAtOnce) {
		found := i.processPage(ctx, r, page, now)
		if running < mostShown {
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
			i.keys.ReadRecord(identity))
	}
	replies := i.do(ctx, calls)
	processes := make([]Process, len(page))
	for n, identity := range page {
		hash, score, recorded := replies[3*n], replies[3*n+1], replies[3*n+2]
		p := &processes[n]
		*p = Process{Identity: identity, Running: []Run{}}
		fields := r.texts("process "+identity, hash)
		p.tell(r, append(fields, make([]string, 6)...), now)
		expiry, _ := r.value("alive", score).(string)
		p.judge(expiry, slices.ContainsFunc(fields, func(field string) bool { return field != "" }), now)
		r.value("the record of "+identity, recorded)
		if record, ok, err := lua.RecordOf(recorded); err == nil && ok {
			p.Concurrency = cmp.Or(p.Concurrency, record.Concurrency)
			if len(p.Queues) == 0 {
				p.Queues = record.Queues
			}
		}
		p.Labels, p.Queues = orEmpty(p.Labels), orEmpty(p.Queues)
	}
	return processes
}

// info is what the process said of itself when it began.
type info struct {
	Hostname    string   `json:"hostname"`
	StartedAt   float64  `json:"started_at"`
	PID         int      `json:"pid"`
	Tag         string   `json:"tag"`
	Concurrency int      `json:"concurrency"`
	Queues      []string `json:"queues"`
	Labels      []string `json:"labels"`
	Version     string   `json:"version"`
	Capsules    map[string]struct {
		Weights map[string]any `json:"weights"`
	} `json:"capsules"`
}

// tell fills in what the process' hash says. A field of another type than it should have is left empty, the others
// count: encoding/json goes on after such a one.
func (p *Process) tell(r *reading, fields []string, now time.Time) {
	var about info
	if fields[0] != "" {
		if err := json.Unmarshal([]byte(fields[0]), &about); err != nil {
			r.problem("process %s: its info cannot all be read: %v", p.Identity, err)
		}
	}
	p.Hostname, p.PID, p.Tag, p.Labels, p.Version = about.Hostname, about.PID, about.Tag, about.Labels, about.Version
	p.StartedAt = instant(about.StartedAt)
	p.Queues = about.Queues
	if len(p.Queues) == 0 { // Sidekiq from 8.0.9 on need not say them otherwise
		queues := map[string]bool{}
		for _, capsule := range about.Capsules {
			for queue := range capsule.Weights {
				queues[queue] = true
			}
		}
		p.Queues = slices.Sorted(maps.Keys(queues))
	}
	p.Busy, p.Quiet, p.RSS = atoi(fields[1]), fields[3] == "true", atoi(fields[4])
	p.Concurrency = cmp.Or(atoi(fields[5]), about.Concurrency) // Sidekiq writes the former since 8.1.2, the latter until then
	if beat, err := strconv.ParseFloat(fields[2], 64); err == nil {
		p.BeatAge = &Seconds{max(now.Sub(instant(beat)), 0)}
	}
}

// judge says whether the process lives. expiry is until when, in milliseconds, for a process of ours; Ruby's live as long
// as they have a hash.
func (p *Process) judge(expiry string, announced bool, now time.Time) {
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

func atoi(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// latest is the last second that JSON has a way to write.
var latest = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// instant reads seconds since 1970; none is the zero time.
func instant(seconds float64) time.Time {
	switch {
	case seconds <= 0:
		return time.Time{}
	case seconds > float64(latest.Unix()): // before it is converted: beyond an int64, infinity included, that answers anything
		return latest
	}
	return time.UnixMicro(int64(seconds * 1e6)).UTC()
}

// sayable is an instant as JSON can write it: one beyond the years of the calendar, which anybody may have put into Redis,
// would otherwise take the whole list with it.
func sayable(at time.Time) time.Time {
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
