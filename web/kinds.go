package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/belayq/belay/inspect"
)

// A kind is what users act on by its name, such as a batch.
type kind struct {
	list string // its page with all of them
	one  string // its page with one of them; empty for none
	noun string // for answers
	gone string // the answer if there is none of that name any more; empty for a sentence with the noun
	// field is the field of a form with the name, and of is where an act has it.
	field string
	of    func(*Act) *string
	// only is the act of a form that names none.
	only string
	acts map[string]kindAct
	// read reads more of the form than the name, before the act is permitted; nil for nothing.
	read func(*visit, *Act)
}

// A kindAct does an act. It returns the answer, and fields for the audit log; found is false if there is
// nothing of that name.
type kindAct func(d *Dashboard, v *visit, name string, act Act) (answer flash, result []any, found bool, err error)

// finding returns an act on what may be gone. %s in the answer is the name.
func finding(done string, do func(*inspect.Inspector, context.Context, string) (found bool, err error)) kindAct {
	return func(d *Dashboard, v *visit, name string, _ Act) (flash, []any, bool, error) {
		found, err := do(d.inspector, v.ctx, name)
		return flash{Text: fmt.Sprintf(done, cut(80, name))}, []any{"found", found}, found, err
	}
}

// changing returns an act that may find the state to be as it should be already.
func changing(done, already string, do func(*inspect.Inspector, context.Context, string) (changed bool, err error)) kindAct {
	return func(d *Dashboard, v *visit, name string, _ Act) (flash, []any, bool, error) {
		changed, err := do(d.inspector, v.ctx, name)
		text := done
		if !changed {
			text = already
		}
		return flash{Text: fmt.Sprintf(text, cut(200, name))}, []any{"changed", changed}, true, err
	}
}

// act does the act that a form names.
func (k kind) act(d *Dashboard, v *visit) error {
	act := Act{Name: cmp.Or(v.form.Get("do"), k.only)}
	name := v.form.Get(k.field)
	*k.of(&act) = name
	do := k.acts[act.Name]
	if do == nil || name == "" {
		return fail(http.StatusBadRequest, "The form names no act, or no %s.", k.noun)
	}
	if k.read != nil {
		k.read(v, &act)
	}
	page := k.page(v, name)
	after := page
	if act.Name == "remove" {
		after = k.list
	}
	return d.perform(v, act, after, func() (flash, []any, error) {
		answer, result, found, err := do(d, v, name, act)
		switch {
		case errors.Is(err, inspect.ErrLimitChange), errors.Is(err, inspect.ErrClassRule):
			err = fail(http.StatusBadRequest, "%s", plain(cut(300, err.Error())))
		case err == nil && !found, errors.Is(err, inspect.ErrNoPeriodic):
			err = refusal{cmp.Or(k.gone, "There is no such "+k.noun+" any more."), k.list}
		}
		if refused, is := errors.AsType[refusal](err); is {
			err = refusal{refused.text, cmp.Or(refused.page, page)}
		}
		if err != nil {
			result = nil
		}
		return answer, result, err
	})
}

// page returns the page that shows answers of acts on the thing of a name: the one with the form, if the form says
// so, or that of the thing, if it has one.
func (k kind) page(v *visit, name string) string {
	form := oneOf(v.form.Get("back"), k.list, "busy", "./")
	if form != "" || k.one == "" {
		return cmp.Or(form, k.list)
	}
	return k.one + "?" + url.Values{k.field: {name}}.Encode()
}

var queueKind = kind{
	list: "queues", one: "queue", noun: "queue", field: "name", of: func(a *Act) *string { return &a.Queue },
	acts: map[string]kindAct{
		"pause":  changing("Queue %s is paused.", "Queue %s was paused already.", (*inspect.Inspector).Pause),
		"resume": changing("Queue %s is resumed.", "Queue %s was resumed already.", (*inspect.Inspector).Resume),
	},
}

var batchKind = kind{
	list: "batches", one: "batch", noun: "batch", field: "bid", of: func(a *Act) *string { return &a.Batch },
	acts: map[string]kindAct{
		"seal":       finding("%s is sealed.", (*inspect.Inspector).SealBatch),
		"invalidate": finding("%s is invalid: its members that have not started are dropped.", (*inspect.Inspector).InvalidateBatch),
		"remove":     finding("%s is deleted; its jobs stay.", (*inspect.Inspector).DeleteBatch),
	},
}

var periodicKind = kind{
	list: "periodic", one: "history", noun: "periodic job", field: "name", of: func(a *Act) *string { return &a.Periodic },
	acts: map[string]kindAct{
		"pause":  changing("%s is paused: its ticks pass.", "%s was paused already.", (*inspect.Inspector).PausePeriodic),
		"resume": changing("%s is resumed: ticks count from now on.", "%s was not paused.", (*inspect.Inspector).ResumePeriodic),
		"remove": finding("%s is removed.", func(i *inspect.Inspector, ctx context.Context, name string) (bool, error) {
			err := i.RemovePeriodic(ctx, name)
			if errors.Is(err, inspect.ErrRegistered) {
				err = refusal{text: "A live process has this periodic job in its code and would register it again: pause it, or remove it from the program."}
			}
			return err == nil, err
		}),
		"run": func(d *Dashboard, v *visit, name string, _ Act) (flash, []any, bool, error) {
			run, err := d.inspector.RunPeriodic(v.ctx, name)
			answer := flash{Text: fmt.Sprintf("Enqueued the job %s of %s.", run.JID, cut(200, name))}
			if run.Outcome == "refused" {
				answer = flash{Text: fmt.Sprintf("Refused: the job %s of an earlier tick waits or runs.", run.JID), Bad: true}
			}
			return answer, []any{"answer", plain(answer.Text)}, true, err
		},
	},
}

var lockKind = kind{
	list: "locks", noun: "lock", gone: "It was released already.", field: "digest", of: func(a *Act) *string { return &a.Lock }, only: "release",
	acts: map[string]kindAct{"release": func(d *Dashboard, v *visit, digest string, _ Act) (flash, []any, bool, error) {
		lock, held, err := d.inspector.ReleaseLock(v.ctx, digest)
		answer := flash{Text: fmt.Sprintf("Released; %s (%s) had held it for %s.", lock.JID, lock.Class, span(lock.Age.Duration))}
		if lock.Dirty {
			answer.Problems = []string{"A duplicate was refused while the job ran, and the extra run for it does not take place: push it again."}
		}
		return answer, []any{"held", held, "holder", plain(lock.JID)}, held, err
	}},
}

var limitKind = kind{
	list: "limits", one: "limit", noun: "limit", field: "name", of: func(a *Act) *string { return &a.Limit },
	acts: map[string]kindAct{
		"set": func(d *Dashboard, v *visit, name string, act Act) (flash, []any, bool, error) {
			l, err := d.inspector.SetLimit(v.ctx, name, inspect.LimitChange{Concurrency: act.Concurrency, Rate: act.Rate})
			text := fmt.Sprintf("%s: concurrency %s, rate %s.", cut(80, name), cmp.Or(concurrencyOf(l.Concurrency), "none"), cmp.Or(l.Rate, "none"))
			return flash{Text: text}, []any{"found", true}, true, err
		},
		"reset":  finding("%s gets the size of the programs within half a minute.", (*inspect.Inspector).ResetLimit),
		"remove": finding("%s is removed. A program that declares it stores it again.", (*inspect.Inspector).RemoveLimit),
	},
	read: func(v *visit, act *Act) {
		if act.Name == "set" { // an empty field is no limit: the form shows the size as it is
			act.Concurrency, act.Rate = cmp.Or(v.form.Get("concurrency"), "none"), cmp.Or(v.form.Get("rate"), "none")
		}
	},
}

var gateKind = kind{
	list: "limits?check=1", noun: "gate", field: "gate", of: func(a *Act) *string { return &a.Gate },
	acts: map[string]kindAct{"repair": func(d *Dashboard, v *visit, gate string, _ Act) (flash, []any, bool, error) {
		was, err := d.inspector.ResetGate(v.ctx, gate)
		text := fmt.Sprintf("%s: %d running (was %d), %d admitted (was %d).", cut(80, gate), was.Slots, was.Running, was.Admissions, was.Admitted)
		return flash{Text: text}, []any{"found", true}, true, err
	}},
}

// limitAct changes a limit, or repairs the counts of a gate.
func limitAct(d *Dashboard, v *visit) error {
	if v.form.Get("do") == "repair" {
		return gateKind.act(d, v)
	}
	return limitKind.act(d, v)
}

var classKind = kind{
	list: "classes", noun: "class", field: "class", of: func(a *Act) *string { return &a.Class },
	acts: map[string]kindAct{
		"pause": setRule, "limit": setRule, "drop": setRule,
		"resume": func(d *Dashboard, v *visit, class string, _ Act) (flash, []any, bool, error) {
			found, err := d.inspector.RemoveClassRule(v.ctx, class)
			if err == nil && !found {
				err = refusal{text: cut(80, class) + " has no rule any more."}
			}
			return flash{Text: cut(80, class) + " is resumed: its waiting jobs go back to their queues."}, []any{"found", found}, true, err
		},
	},
	read: func(v *visit, act *Act) {
		if act.Name == "limit" {
			act.Concurrency = v.form.Get("concurrency")
		}
	},
}

// setRule gives a class a rule.
func setRule(d *Dashboard, v *visit, class string, act Act) (flash, []any, bool, error) {
	rule := inspect.ClassRule{Class: class, Rule: inspect.Rule(act.Name)}
	rule.Concurrency, _ = strconv.Atoi(act.Concurrency) // what is no number is refused as 0 is
	changed, err := d.inspector.SetClassRule(v.ctx, rule)
	done := map[string]string{"pause": "is paused", "drop": "is dropped: its jobs end before they start", "limit": fmt.Sprintf("runs at most %d at once", rule.Concurrency)}
	return flash{Text: cut(80, class) + " " + done[act.Name] + "."}, []any{"changed", changed}, true, err
}
