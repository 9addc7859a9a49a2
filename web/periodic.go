package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

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

// periodicAct pauses, resumes, runs or removes a periodic job.
func (d *Dashboard) periodicAct(v *visit) error {
	act := Act{Name: oneOf(v.form.Get("do"), "pause", "resume", "run", "remove"), Periodic: v.form.Get("name")}
	if act.Name == "" || act.Periodic == "" {
		return fail(http.StatusBadRequest, "The form names no act, or no periodic job.")
	}
	if err := d.permit(v, act); err != nil {
		return err
	}
	answer, err := d.actOnPeriodic(v, act)
	d.auditAnswer(v, act, answer, err)
	gone := errors.Is(err, inspect.ErrNoPeriodic)
	switch {
	case gone:
		answer = flash{Text: "There is no such periodic job any more.", Bad: true}
	case errors.Is(err, inspect.ErrRegistered):
		answer = flash{Text: "A live process has this periodic job in its code and would register it again: pause it, or remove it from the program.", Bad: true}
	case err != nil:
		return err
	}
	d.flash(v, answer)
	if v.form.Get("back") == "periodic" || gone || act.Name == "remove" && err == nil {
		v.redirect("periodic")
	} else {
		v.redirect("history?" + url.Values{"name": {act.Periodic}}.Encode())
	}
	return nil
}

func (d *Dashboard) actOnPeriodic(v *visit, act Act) (answer flash, err error) {
	did := func(changed bool, word, already string) flash {
		if !changed {
			word = already
		}
		return flash{Text: fmt.Sprintf("%s %s.", cut(200, act.Periodic), word)}
	}
	var changed bool
	switch act.Name {
	case "pause":
		changed, err = d.inspector.PausePeriodic(v.ctx, act.Periodic)
		return did(changed, "is paused: its ticks pass", "was paused already"), err
	case "resume":
		changed, err = d.inspector.ResumePeriodic(v.ctx, act.Periodic)
		return did(changed, "is resumed: ticks count from now on", "was not paused"), err
	case "remove":
		err = d.inspector.RemovePeriodic(v.ctx, act.Periodic)
		return did(true, "is removed", ""), err
	}
	run, err := d.inspector.RunPeriodic(v.ctx, act.Periodic)
	if run.Outcome == "refused" {
		return flash{Text: fmt.Sprintf("Refused: the job %s of an earlier tick waits or runs.", run.JID), Bad: true}, err
	}
	return flash{Text: fmt.Sprintf("Enqueued the job %s of %s.", run.JID, cut(200, act.Periodic))}, err
}
