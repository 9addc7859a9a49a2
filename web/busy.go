package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/belayq/belay/inspect"
)

// busyBody is what the page of processes and running jobs shows.
type busyBody struct {
	Processes []inspect.Process
	Runs      []running // the oldest first
	Further   int       // running jobs that are not listed
	Alive     int
	Memory    int
}

type running struct {
	inspect.Run
	Process string
	Lapsed  bool
	Args    string // cut
}

// maxRuns bounds the running jobs of one page.
const maxRuns = 200

func (d *Dashboard) busy(v *visit) error {
	status, err := d.status(v.ctx)
	if err != nil {
		return err
	}
	body := busyBody{Processes: slices.Clone(status.Processes)}
	busy := 0
	for _, process := range status.Processes {
		if process.State == inspect.StateAlive {
			body.Alive++
			body.Memory += process.RSS
			busy += process.Busy
		}
		for _, run := range process.Running {
			body.Runs = append(body.Runs, running{run, process.Identity, process.State != inspect.StateAlive, cut(maxRowArgs, spaced(run.Args))})
		}
	}
	slices.SortStableFunc(body.Processes, func(a, b inspect.Process) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(a.Hostname, b.Hostname), a.StartedAt.Compare(b.StartedAt))
	})
	slices.SortStableFunc(body.Runs, func(a, b running) int { return cmp.Compare(b.Elapsed.Duration, a.Elapsed.Duration) })
	body.Runs = body.Runs[:min(len(body.Runs), maxRuns)]
	body.Further = max(busy-len(body.Runs), 0)
	return d.show(v, "busy", page{Title: "Busy", Nav: "busy", Live: 2, Status: &status.Status, Body: body})
}

// rank puts the processes first that need attention.
func rank(p inspect.Process) int {
	switch {
	case p.State != inspect.StateAlive:
		return 2
	case p.Quiet:
		return 1
	}
	return 0
}

// signalBody asks before a signal to all processes.
type signalBody struct {
	Name, Verb, Note string
	Count            int
}

func (d *Dashboard) askSignal(v *visit) error {
	status, err := d.status(v.ctx)
	if err != nil {
		return err
	}
	body := signalBody{Name: "quiet", Verb: "Quiet", Note: "They take no more jobs, and finish those they have. Only a restart ends it."}
	if v.form.Get("do") == "stop" {
		body = signalBody{Name: "stop", Verb: "Stop", Note: "They take no more jobs, and end when their jobs are done or the shutdown " +
			"timeout is over; unfinished jobs go back to their queues."}
	}
	body.Count = len(aliveIdentities(status.Status))
	return d.show(v, "signal", page{Title: body.Verb + " all", Nav: "busy", Status: &status.Status, Body: body})
}

// aliveIdentities returns the identities of the processes that are alive.
func aliveIdentities(s inspect.Status) (identities []string) {
	for _, process := range s.Processes {
		if process.State == inspect.StateAlive {
			identities = append(identities, process.Identity)
		}
	}
	return identities
}

// signal sends quiet or stop to one process, or to all that are alive.
func (d *Dashboard) signal(v *visit) error {
	act := Act{Name: oneOf(v.form.Get("do"), "quiet", "stop", "dump"), Process: v.form.Get("process"), All: v.form.Get("all") != ""}
	if act.Name == "" || act.All == (act.Process != "") {
		return fail(http.StatusBadRequest, "The form must name a signal, and either one process or all.")
	}
	return d.perform(v, act, "busy", func() (flash, []any, error) {
		sent, err := d.sendSignal(v, act)
		answer := flash{Text: fmt.Sprintf("Sent %s to %s; it takes a few seconds.", act.Name, plural(sent, "process", "processes"))}
		if sent == 0 {
			answer = flash{Text: "There is no such process any more.", Bad: true}
		}
		return answer, []any{"sent", sent}, err
	})
}

// sendSignal returns how many processes got the signal.
func (d *Dashboard) sendSignal(v *visit, act Act) (sent int, err error) {
	targets := []string{act.Process}
	if act.All {
		status, err := d.status(v.ctx)
		if err != nil {
			return 0, err
		}
		targets = aliveIdentities(status.Status)
	}
	for _, identity := range targets {
		found, err := d.inspector.Signal(v.ctx, identity, inspect.Signal(act.Name))
		if err != nil {
			return sent, err
		}
		if found {
			sent++
		}
	}
	return sent, nil
}
