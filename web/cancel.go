package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/belayq/belay/inspect"
)

// cancelled says what Cancel did about one job.
var cancelled = map[inspect.CancelResult]string{
	inspect.CancelRemoved:  "Removed: the job waited, and will not run.",
	inspect.CancelStopping: "Stopping: a worker has the job. It ends within a few seconds, without a retry.",
	inspect.CancelMarked:   "Marked: the job was not found. A worker that takes it after its next heartbeat drops it.",
	inspect.CancelDone:     "Done: the job had ended before, and was not changed.",
}

// cancel cancels one job by its jid, or the selected jobs of a set.
func (d *Dashboard) cancel(v *visit) error {
	act := actIn(v.form.Get("in"), v.form.Get("queue"))
	act.Name, act.IDs = "cancel", v.form["jid"]
	if len(act.IDs) == 0 {
		for _, ref := range v.form["ref"] {
			_, jid, _ := strings.Cut(ref, ":")
			act.IDs = append(act.IDs, jid)
		}
	}
	back := "busy"
	if act.In != "" {
		if _, err := homeOf(act.In, homeName(act)); err != nil {
			return err
		}
		back = pageOf(act)
	} else if v.form.Get("back") != back && len(act.IDs) > 0 {
		back = "job?" + url.Values{"jid": {act.IDs[0]}}.Encode()
	}
	if len(act.IDs) == 0 {
		if act.In == "" {
			return fail(http.StatusBadRequest, "The form names no job.")
		}
		d.flash(v, flash{Text: "No job was selected.", Bad: true})
		v.redirect(back)
		return nil
	}
	return d.perform(v, act, back, func() (flash, []any, error) {
		results, err := d.inspector.Cancel(v.ctx, act.IDs...)
		switch {
		case err != nil && results == nil:
			return flash{}, nil, fail(http.StatusBadRequest, "%s", plain(cut(300, err.Error())))
		case err != nil:
			return flash{}, nil, err
		}
		answer := describeCancel(results)
		return answer, []any{"answer", plain(answer.Text)}, nil
	})
}

func describeCancel(results []inspect.Cancellation) (f flash) {
	counts := make(map[inspect.CancelResult]int)
	for _, cancellation := range results {
		counts[cancellation.Result]++
		if cancellation.Unseen != "" && !slices.Contains(f.Problems, "Not searched: "+cancellation.Unseen) {
			f.Problems = append(f.Problems, "Not searched: "+cancellation.Unseen)
		}
	}
	if len(results) == 1 {
		f.Text = cancelled[results[0].Result]
		return f
	}
	var parts []string
	for _, result := range []inspect.CancelResult{inspect.CancelRemoved, inspect.CancelStopping, inspect.CancelMarked, inspect.CancelDone} {
		if n := counts[result]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, result))
		}
	}
	f.Text = fmt.Sprintf("Cancelled %s: %s.", plural(len(results), "job", "jobs"), strings.Join(parts, ", "))
	return f
}
