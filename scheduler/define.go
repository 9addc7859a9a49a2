package scheduler

import (
	"context"
	"errors"
	"fmt"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

// Define registers the definitions of periodic jobs, as lua.Keys.Define does, and returns one word for each.
// Before a schedule changes, Define fires what is due by the old one, as the poller would: the poller may be
// away, and the ticks of a new schedule count from its registration. Any process may do that, because each tick
// is stored once. A word is lua.DefineDue if more ticks are due than go in one call, or if they could not be
// fired; call Define again then. With an error, the words are those that are known. Of cfg, it needs Keys, Unit
// and Log.
func Define(ctx context.Context, link *link.Link, cfg Config, by lua.Registrar, definitions []lua.Definition) (words []string, errs error) {
	cfg.Log = logbook.OrDiscard(cfg.Log)
	p := &Poller{cfg: cfg, link: link, ticks: newTicks()}
	rest := make([]int, len(definitions)) // the places of those that have no other word than due
	for i := range rest {
		rest[i] = i
	}
	for range maxRounds {
		batch := make([]lua.Definition, len(rest))
		for i, at := range rest {
			batch[i] = definitions[at]
		}
		ask := cfg.Keys.Define(by, batch)
		answers, err := ask.Read(link.Carry(ctx, 0, ask.Call)[0])
		if err == nil && len(answers) != len(rest) {
			err = fmt.Errorf("%d answers to %d definitions", len(answers), len(rest))
		}
		if err != nil {
			return words, errors.Join(errs, err)
		}
		if words == nil {
			words = make([]string, len(definitions))
		}
		var due []int
		var names []string
		for i, at := range rest {
			words[at] = answers[i]
			switch answers[i] {
			case lua.DefineDue:
				due, names = append(due, at), append(names, batch[i].Name)
			case lua.DefineStored:
				p.logLeftOut(batch[i].Name)
			}
		}
		// What could not be fired is asked for once more, because the plan may have been put off.
		if rest = due; len(due) == 0 || errs != nil {
			return words, errs
		}
		_, errs = p.fireAll(ctx, names, false)
	}
	return words, errs
}

// ErrNoPeriodic is the error about a periodic job that does not exist.
var ErrNoPeriodic = errors.New("there is no periodic job of this name")

// ErrRegistered is the error of Remove for a periodic job that a live process has in its code.
var ErrRegistered = errors.New("a live process has this periodic job in its code and would register it again: pause it, or remove it from the program")

// Store stores the definition of a periodic job for an operator: it replaces one of the same name, even one
// that programs have in their code, and stays until Remove. Before the schedule changes, the ticks that are due
// by the old one are fired. Store reports whether it changed anything. Of cfg, it needs Keys and Unit.
func Store(ctx context.Context, link *link.Link, cfg Config, p *Periodic) (changed bool, err error) {
	// Each round fires some ticks, and no more than a bounded number of them is due.
	for {
		words, err := Define(ctx, link, cfg, lua.Registrar{}, []lua.Definition{p.Definition()})
		switch {
		case len(words) == 1 && words[0] != lua.DefineDue:
			// An error is that of a former definition that cannot be fired; this one has replaced it.
			return words[0] == lua.DefineStored, nil
		case err != nil:
			return false, fmt.Errorf("store the periodic job %q: %w", p.Name, err)
		}
	}
}

// Remove removes the definition of a periodic job. Its jobs that were enqueued stay. The error is ErrNoPeriodic
// if there is none, and ErrRegistered for one that a live process has in its code. If an operator's definition
// had replaced one in code, the one in code is in force again.
func Remove(ctx context.Context, client driver.Client, keys lua.Keys, name string) error {
	word, err := keys.Undefine(name).Do(ctx, client)
	switch {
	case err != nil:
		return fmt.Errorf("remove the periodic job %q: %w", name, err)
	case word == lua.UndefineUnknown:
		return fmt.Errorf("%w: %q", ErrNoPeriodic, name)
	case word == lua.UndefineRegistered:
		return fmt.Errorf("the periodic job %q: %w", name, ErrRegistered)
	}
	return nil
}
