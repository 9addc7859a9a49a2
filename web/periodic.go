package web

import (
	"errors"
	"net/http"

	"github.com/belayq/belay/inspect"
)

// periodicBody is what the page of all periodic jobs shows.
type periodicBody struct {
	Jobs    []inspect.Periodic
	Further int
}

// maxPeriodic bounds the periodic jobs of one page.
const maxPeriodic = 500

func (d *Dashboard) periodic(v *visit) error {
	all, err := d.inspector.Periodic(v.ctx)
	if err != nil {
		return err
	}
	body := periodicBody{Jobs: all[:min(len(all), maxPeriodic)]}
	body.Further = len(all) - len(body.Jobs)
	return d.show(v, "periodic", page{Title: "Periodic", Nav: "periodic", Live: 4, Body: body})
}

// historyBody is what the page of one periodic job shows.
type historyBody struct {
	Job  inspect.Periodic
	Args string
	Runs []inspect.PeriodicRun
}

func (d *Dashboard) history(v *visit) error {
	name := v.form.Get("name")
	job, runs, err := d.inspector.PeriodicHistory(v.ctx, name)
	if errors.Is(err, inspect.ErrNoPeriodic) {
		return fail(http.StatusNotFound, "There is no periodic job %s.", plain(cut(200, name)))
	}
	if err != nil {
		return err
	}
	body := historyBody{Job: job, Args: cut(maxArgs, spaced(string(job.Args))), Runs: runs}
	return d.show(v, "history", page{Title: name, Nav: "periodic", Live: 4, Body: body})
}
