package web

import "github.com/belayq/belay/inspect"

// reset asks before the counters are set to zero.
func (d *Dashboard) reset(v *visit) error {
	return d.show(v, "reset", page{Title: "Reset the counters", Nav: "./"})
}

func (d *Dashboard) resetCounters(v *visit) error {
	act := Act{Name: "reset"}
	if v.form.Get("do") != act.Name {
		v.redirect("reset")
		return nil
	}
	return d.perform(v, act, "./", func() (flash, []any, error) {
		err := d.inspector.ResetCounters(v.ctx, inspect.CounterProcessed, inspect.CounterFailed, inspect.CounterDuplicates)
		return flash{Text: "The counters are zero. The counts of each day were kept."}, nil, err
	})
}
