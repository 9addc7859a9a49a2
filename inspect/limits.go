package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/limit"
	"github.com/belayq/belay/lua"
)

// A Limit is what an operator sees of a limit. Its name is untrusted.
type Limit struct {
	Name string `json:"name"`
	// Concurrency is how many of its jobs may run at once; nil for any number, and 0 if none may run.
	Concurrency *int `json:"concurrency,omitempty"`
	// Rate is how many may start in a time, as LimitChange has it; empty for any number.
	Rate string `json:"rate,omitempty"`
	// Source is "code" for the size that programs declare, "operator" for one of SetLimit, and "reset" for one
	// that the next program that declares the limit replaces; empty if there is no size: programs have declared
	// the limit before, and it still has runs or waiting jobs.
	Source lua.LimitSource `json:"source,omitempty"`
	// SeenAt is when a program that declares the limit said so last.
	SeenAt time.Time `json:"seen_at,omitzero"`
	// Running counts its runs, Admitted the jobs that may start and have not, and Waiting those that wait, at
	// all its gates together.
	Running  int64 `json:"running"`
	Admitted int64 `json:"admitted"`
	Waiting  int64 `json:"waiting"`
	// Gates is how many gates it has with any of these jobs: one for each key.
	Gates int `json:"gates"`
	// Oldest is how long ago the next of the waiting jobs was enqueued, of the gate where that is longest.
	Oldest Seconds `json:"oldest_seconds"`
}

// A Gate is what an operator sees of the jobs of a limit with one key. All its text is untrusted.
type Gate struct {
	// Name is the name of the limit, a colon and the key.
	Name  string `json:"gate"`
	Limit string `json:"limit"`
	Key   string `json:"key"`
	// Running, Admitted, Waiting and Oldest are those of Limit, for this gate.
	Running  int64   `json:"running"`
	Admitted int64   `json:"admitted"`
	Waiting  int64   `json:"waiting"`
	Oldest   Seconds `json:"oldest_seconds"`
	// Queue is the queue of the next waiting job.
	Queue string `json:"queue,omitempty"`
	// Stopped is for how long it starts nothing, because a job asked for it (belay.RateLimited).
	Stopped Seconds `json:"stopped_seconds,omitzero"`
}

// Limits are the limits of a keyspace.
type Limits struct {
	// Limits are at most 1,000, by name.
	Limits []Limit `json:"limits"`
	// Problems describes what could not be read, at most 20.
	Problems []string `json:"problems,omitempty"`
}

const (
	// maxCounted bounds the counts, admissions and leases that one request reads.
	maxCounted = 20_000
	// gatesAtOnce is how many gates one pipeline asks for. Each reply contains the gate's next job.
	gatesAtOnce = 32
)

// Limits returns the limits that programs declare or operators set, and those with jobs that still count. Their
// counts cover at most 1,000 gates with waiting jobs, those at which the poller looks first.
func (i *Inspector) Limits(ctx context.Context) (Limits, error) {
	var r reading
	byName, err := i.limits(ctx, &r)
	if err != nil {
		return Limits{}, err
	}
	gates, err := i.gates(ctx, &r, "")
	if err = cmp.Or(err, r.err); err != nil {
		return Limits{}, err
	}
	for _, gate := range gates {
		l := byName[gate.Limit]
		if l == nil {
			l = &Limit{Name: gate.Limit}
			byName[gate.Limit] = l
		}
		l.add(gate)
	}
	found := Limits{Limits: make([]Limit, 0, len(byName)), Problems: r.problems}
	for _, l := range byName {
		found.Limits = append(found.Limits, *l)
	}
	slices.SortFunc(found.Limits, func(a, b Limit) int { return cmp.Compare(a.Name, b.Name) })
	if len(found.Limits) > maxShown {
		found.Limits = found.Limits[:maxShown]
		r.problem("there are more than %d limits", maxShown)
		found.Problems = r.problems
	}
	return found, nil
}

func (l *Limit) add(gate Gate) {
	l.Running, l.Admitted, l.Waiting, l.Gates = l.Running+gate.Running, l.Admitted+gate.Admitted, l.Waiting+gate.Waiting, l.Gates+1
	l.Oldest.Duration = max(l.Oldest.Duration, gate.Oldest.Duration)
}

// limits reads the sizes of limits.
func (i *Inspector) limits(ctx context.Context, r *reading) (map[string]*Limit, error) {
	limits := make(map[string]*Limit)
	for from := lua.FirstPage; len(limits) <= maxShown; {
		page, err := i.keys.ReadLimits(from).Do(ctx, i.driver)
		if refused, ok := errors.AsType[*driver.ServerError](err); ok {
			r.problem("the sizes of limits: %v", refused)
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the sizes of limits: %w", err)
		}
		for _, stored := range page.Limits {
			l := limitOf(stored)
			limits[l.Name] = &l
		}
		if from = page.Next; from == lua.LastPage {
			break
		}
	}
	return limits, nil
}

func limitOf(stored lua.Limit) Limit {
	l := Limit{Name: stored.Name, Rate: limit.RateOf(stored.Size).String(), Source: stored.Source, SeenAt: stored.SeenAt}
	if stored.Paused || stored.Concurrency > 0 {
		l.Concurrency = &stored.Concurrency
	}
	return l
}

// gates reads the gates with jobs of one limit, or of all of them for an empty name, sorted by name. Those that
// are wanted are among them, however many there are.
func (i *Inspector) gates(ctx context.Context, r *reading, of string, wanted ...string) ([]Gate, error) {
	counts := make(map[string]*Gate)
	gate := func(name string) *Gate {
		if counts[name] == nil {
			l, key, _ := strings.Cut(name, ":")
			counts[name] = &Gate{Name: name, Limit: l, Key: key}
		}
		return counts[name]
	}
	fields, err := i.fields(ctx, r, "the counts of gates", i.keys.Gates())
	if err != nil {
		return nil, err
	}
	for field, text := range fields {
		name, kind, _ := strings.Cut(field, "\n")
		if of != "" && !strings.HasPrefix(name, of+":") {
			continue
		}
		switch count := r.count("a count of the gate "+name, text); kind {
		case "r":
			gate(name).Running = count
		case "a":
			gate(name).Admitted = count
		}
	}
	var waiting []string
	if of == "" {
		waiting, err = i.firstWaiting(ctx, r)
	} else {
		waiting, err = i.waitingGates(ctx)
		waiting = slices.DeleteFunc(waiting, func(name string) bool { return !strings.HasPrefix(name, of+":") })
		if len(waiting) > maxShown {
			r.problem("%d gates have waiting jobs, and %d of them are listed", len(waiting), maxShown)
			slices.SortStableFunc(waiting, func(a, b string) int {
				return cmp.Compare(slices.Index(wanted, b), slices.Index(wanted, a))
			})
			waiting = waiting[:maxShown]
		}
	}
	now, timeErr := i.Now(ctx)
	if err = cmp.Or(err, timeErr); err != nil {
		return nil, err
	}
	for _, line := range i.lines(ctx, r, waiting, now) {
		g := gate(line.Name)
		g.Waiting, g.Oldest, g.Queue, g.Stopped = line.Waiting, line.Oldest, line.Queue, line.Stopped
	}
	gates := make([]Gate, 0, len(counts))
	for _, g := range counts {
		gates = append(gates, *g)
	}
	slices.SortFunc(gates, func(a, b Gate) int { return cmp.Compare(a.Name, b.Name) })
	return gates, r.err
}

// firstWaiting returns the names of gates with waiting jobs, at most maxShown of them.
func (i *Inspector) firstWaiting(ctx context.Context, r *reading) ([]string, error) {
	replies := i.driver.Do(ctx, driver.Command("ZRANGE", i.keys.Waiting(), "0", strconv.Itoa(maxShown-1)), driver.Command("ZCARD", i.keys.Waiting()))
	names := r.texts("the gates with waiting jobs", replies[0])
	if all := r.number("the gates with waiting jobs", replies[1]); all > maxShown {
		r.problem("%d gates have waiting jobs, and %d of them are counted", all, maxShown)
	}
	return names, r.err
}

// lines reads how many jobs wait at some gates, and what is known about the next of each.
func (i *Inspector) lines(ctx context.Context, r *reading, names []string, now time.Time) []Gate {
	gates := make([]Gate, 0, len(names))
	for page := range slices.Chunk(names, gatesAtOnce) {
		var calls []driver.Call
		for _, name := range page {
			list := i.keys.WaitingList(name)
			calls = append(calls, driver.Command("LLEN", list), driver.Command("LINDEX", list, "-1"), driver.Command("PTTL", i.keys.Stop(name)))
		}
		replies := i.do(ctx, calls)
		for n, name := range page {
			gate := Gate{Name: name, Waiting: r.number("the jobs that wait at gate "+name, replies[3*n])}
			if next, _ := replies[3*n+1].Value.(string); next != "" {
				entry := newEntry(Waiters(name), lua.Entry{Bytes: next})
				gate.Queue, gate.Oldest = entry.Queue, since(entry.Found().Since, now)
			}
			gate.Stopped.Duration = time.Duration(max(r.number("the stop of gate "+name, replies[3*n+2]), 0)) * time.Millisecond
			gates = append(gates, gate)
		}
		if r.err != nil {
			break
		}
	}
	return gates
}

// fields reads a hash a page at a time, about maxCounted fields of it at most.
func (i *Inspector) fields(ctx context.Context, r *reading, what, hash string) (map[string]string, error) {
	fields := make(map[string]string)
	for from := lua.FirstPage; ; {
		page, err := lua.FieldPage(hash, from).Do(ctx, i.driver)
		if refused, ok := errors.AsType[*driver.ServerError](err); ok {
			r.problem("%s: %v", what, refused)
			return fields, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", what, err)
		}
		for n := 0; n+1 < len(page.Pairs); n += 2 {
			fields[page.Pairs[n]] = page.Pairs[n+1]
		}
		if from = page.Next; from == lua.LastPage {
			return fields, nil
		}
		if len(fields) >= maxCounted {
			r.problem("%s: there are more than %d, and the others were not read", what, maxCounted)
			return fields, nil
		}
	}
}
