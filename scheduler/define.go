package scheduler

import (
	"context"
	"errors"
	"fmt"

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
