package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/driver"
)

// A contender can be measured: Belay with one of its clients, a peer, or a floor, which has no command.
type contender struct {
	name    string
	kind    report.Kind
	client  string // Belay's
	command subject.Command
	// postgres says that its store is not Redis.
	postgres bool
	// times is by how much more jobs it is given than the slowest; 0 is once.
	times int
	// cannot is why it cannot do a measure, by the measure's name.
	cannot map[string]string
}

// tell adds figures to its rows, by metric.
func (c contender) tell(r *report.Result, which, settings string, figures map[string]float64) {
	for metric, value := range figures {
		r.Add(report.Row{Subject: c.name, Kind: c.kind, Case: which, Settings: settings, Metric: metric}, value)
	}
}

// belays returns Belay with each of the requested clients.
func (b *bench) belays() []contender { return b.overClients(report.Belay, "Belay") }

// floors returns a floor for each of the requested clients, the best that Redis allows: a subject of this
// program that does only Redis' part of the work.
func (b *bench) floors(what string) []contender { return b.overClients(report.Floor, what) }

func (b *bench) overClients(kind report.Kind, name string) []contender {
	var all []contender
	if b.sharded && kind == report.Floor {
		return nil // the bare scripts are those of one keyspace
	}
	for _, client := range b.clients() {
		all = append(all, contender{name: name + ", " + client, kind: kind, client: client, command: b.self})
	}
	return all
}

// able returns the peers that can do the measure. It logs the others and leaves them out.
func (b *bench) able(r *report.Result) []contender {
	var able []contender
	for _, peer := range b.peers {
		if why := peer.cannot[r.Measure]; why != "" {
			b.leaveOut(r, peer.name, why)
			continue
		}
		able = append(able, peer)
	}
	return able
}

// A variant is a contender with settings of one kind.
type variant struct {
	who  contender
	best bool
	name string // the case of its rows
}

// variants are Belay as it comes, and the peers that can do the measure. Those that look for jobs from time
// to time, as the named ones do here, are asked twice: as they come, which is what their users meet, and with
// the settings under which jobs run soonest, which is what they can do.
func (b *bench) variants(r *report.Result, pollers ...string) []variant {
	var all []variant
	for _, who := range append(b.belays(), b.able(r)...) {
		all = append(all, variant{who: who, name: "as it comes"})
		if slices.Contains(pollers, who.name) {
			all = append(all, variant{who: who, best: true, name: "its soonest"})
		}
	}
	return all
}

// patience is how long a subject may report nothing. It is long enough to open, push and run a million jobs,
// and short enough to notice a stuck subject.
const patience = 5 * time.Minute

// start starts a subject with the task, fills in missing fields of the task, and waits until the subject is
// ready. The caller says go, and closes it.
func (b *bench) start(ctx context.Context, c contender, task subject.Task) (*subject.Process, error) {
	if task.URL == "" {
		task.URL = b.redis.url
	}
	if _, tagged := driver.HashTag(task.Prefix); !tagged {
		task.Prefix = strings.Trim(b.prefix+":"+task.Prefix, ":")
	}
	task.Client = c.client
	p, err := subject.Start(c.name, c.command, task)
	if err != nil {
		return nil, err
	}
	if _, err := p.Expect(ctx, subject.Ready, patience); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// do runs one task in an emptied store, from ready to done. It calls at, if not nil, at every event before
// the subject continues; at may inspect the store.
func (b *bench) do(ctx context.Context, c contender, task subject.Task, at func(subject.Event) error) (subject.Event, error) {
	if err := b.emptyFor(ctx, c, &task); err != nil {
		return subject.Event{}, err
	}
	p, err := b.start(ctx, c, task)
	if err != nil {
		return subject.Event{}, err
	}
	defer p.Close()
	e := subject.Event{Event: subject.Ready}
	for {
		if at != nil {
			if err := at(e); err != nil {
				return e, err
			}
		}
		if e.Event == subject.Done {
			return e, nil
		}
		if err := p.Go(); err != nil {
			return e, err
		}
		if e, err = p.Next(ctx, patience); err != nil {
			return e, err
		}
		if e.Event != subject.Pushed && e.Event != subject.Holding && e.Event != subject.Done {
			return e, fmt.Errorf("%s said %q, which has no place in %s", c.name, e.Event, task.Measure)
		}
	}
}

// emptyFor empties the contender's store, and sets its address in the task.
func (b *bench) emptyFor(ctx context.Context, c contender, task *subject.Task) error {
	if !c.postgres {
		return b.empty(ctx)
	}
	url, err := b.freshPostgres(ctx)
	task.URL = url
	return err
}
