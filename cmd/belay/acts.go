package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
)

const actStatus = `Exit status: 0 when it was done, also when nothing matched --class, --unreadable or --all; 1 when Redis cannot be reached or
some could not be moved; 2 for a wrong command line; 4 when a job that was named is not there, or not any more: somebody else
got it first; 130 or 143 when INT or TERM ended it.`

// actFlags select the jobs and the output format.
type actFlags struct {
	selection inspect.Selection
	yes       bool
	asJSON    bool
}

func (f *actFlags) register(set *pflag.FlagSet, action inspect.Action) {
	set.BoolVar(&f.selection.All, "all", false, "all that are there")
	set.StringVar(&f.selection.Class, "class", "", "all of this `CLASS`")
	if action != inspect.Retry {
		set.BoolVar(&f.selection.Unreadable, "unreadable", false, "all that nothing could run")
		set.BoolVarP(&f.yes, "yes", "y", false, "do not ask before --all, --class and --unreadable")
	}
	if action == inspect.Retry {
		set.IntVar(&f.selection.PayloadLimit, "payload-limit", job.DefaultPayloadLimit,
			"the --payload-limit of the workers, in `BYTES`: jobs that died because of their size and exceed it are refused")
	}
	set.BoolVar(&f.asJSON, "json", false, "print what came of it as one JSON object")
}

// choose takes the JIDs in, and wants one way of saying what is meant.
func (f *actFlags) choose(ids []string) error {
	ways := 0
	for _, said := range []bool{len(ids) > 0, f.selection.All, f.selection.Class != "", f.selection.Unreadable} {
		if said {
			ways++
		}
	}
	if ways != 1 {
		return usage("say which jobs: JIDs, or --class CLASS, or --all; one of these")
	}
	f.selection.IDs = ids
	return nil
}

// many says whether more is meant than what was named.
func (f *actFlags) many() bool { return len(f.selection.IDs) == 0 }

// An operation is one act of an operator on one or more homes.
type operation struct {
	cmd       *cobra.Command
	inspector *inspect.Inspector
	action    inspect.Action
	flags     actFlags
	queue     string // the queue of the jobs; empty for a set
	to        string // the target queue of a move; empty for any other action
}

// act acts on one home.
func (o operation) act(ctx context.Context, home inspect.Home, selection inspect.Selection, progress func(inspect.Tally)) (inspect.Tally, error) {
	if o.to == "" {
		return o.inspector.Act(ctx, home, o.action, selection, progress)
	}
	return o.inspector.Move(ctx, home, o.to, selection, progress)
}

// in acts on these homes, one after the other.
func (o operation) in(homes ...inspect.Home) error {
	// Until he has been asked signals are not caught: one at the question ends the program where it stands.
	if err := o.confirm(homes); err != nil {
		return err
	}
	ctx, stop := untilSignal()
	defer stop()
	var sum inspect.Tally
	told := time.Now()
	selection := o.flags.selection
	var err error
	for _, home := range homes {
		before := sum
		sum.Missing = nil
		var tally inspect.Tally
		tally, err = o.act(ctx, home, selection, func(tally inspect.Tally) {
			if now := time.Now(); now.Sub(told) >= progressEvery {
				told = now
				_, _ = fmt.Fprintf(o.cmd.ErrOrStderr(), "%d %s so far\n", before.Moved+tally.Moved, done[o.action])
			}
		})
		sum = add(sum, tally)
		if err != nil {
			break
		}
		selection.IDs = tally.Missing // in the next one, then
		if o.flags.many() == (len(tally.Missing) > 0) {
			break
		}
	}
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	return o.tell(sum, err)
}

func add(a, b inspect.Tally) inspect.Tally {
	return inspect.Tally{
		Moved: a.Moved + b.Moved, Gone: a.Gone + b.Gone, Refused: a.Refused + b.Refused,
		Problems: append(a.Problems, b.Problems...), Missing: b.Missing,
	}
}

// moved is the action of belay queues move.
const moved inspect.Action = "move"

// done are the actions as they are told of.
var done = map[inspect.Action]string{inspect.Retry: "retried", inspect.Kill: "killed", inspect.Delete: "deleted", moved: "moved"}

// tell says what came of it.
func (o operation) tell(sum inspect.Tally, err error) error {
	out := o.cmd.OutOrStdout()
	if o.flags.asJSON {
		_ = printJSON(out, sum)
	} else {
		_, _ = fmt.Fprintf(out, "%d %s\n", sum.Moved, done[o.action])
		if sum.Gone > 0 && o.flags.many() {
			_, _ = fmt.Fprintf(out, "%d had left before their turn came\n", sum.Gone)
		}
		for _, problem := range sum.Problems {
			_, _ = fmt.Fprintln(o.cmd.ErrOrStderr(), plain(problem))
		}
	}
	if sum.Moved == 0 && err == nil && o.queue != "" {
		hintQueue(o.cmd, o.inspector, o.queue)
	}
	interrupted, was := errors.AsType[interruptedError](err)
	switch {
	case was:
		return fmt.Errorf("%w: %d were %s; the others are where they were", interrupted, sum.Moved, done[o.action])
	case err != nil:
		return fmt.Errorf("%w (%d were %s before, perhaps a page more; say it again to go on)", err, sum.Moved, done[o.action])
	case sum.Refused > 0:
		return fmt.Errorf("%d could not be moved and are where they were", sum.Refused)
	case len(sum.Missing) > 0:
		return absent(sum.Missing)
	}
	return nil
}

// absent says that what was named is not there.
func absent(ids []string) error {
	const atMost = 10
	words := strings.Join(ids[:min(len(ids), atMost)], ", ")
	if more := len(ids) - atMost; more > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	return absentError{fmt.Errorf("not there, or not any more: %s", words)}
}

// An absentError says that what a command was to act on is not there.
type absentError struct{ error }

// confirm asks a person before much is destroyed. Who is no person has to have said --yes.
func (o operation) confirm(homes []inspect.Home) error {
	if !o.flags.many() || o.flags.yes || o.action == inspect.Retry || o.action == moved {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	size, where := 0, homes[0].String()
	for _, home := range homes {
		n, err := o.inspector.Size(ctx, home)
		if err != nil {
			return err
		}
		size += n
	}
	which := fmt.Sprintf("all %d jobs in %s", size, where)
	switch {
	case o.flags.selection.Class != "":
		which = fmt.Sprintf("all jobs of class %s among the %d in %s", o.flags.selection.Class, size, where)
	case o.flags.selection.Unreadable:
		which = fmt.Sprintf("all jobs that nothing could run among the %d in %s", size, where)
	}
	return agree(o.cmd, fmt.Sprintf("%s %s", o.action, which))
}

// agree asks a person at a terminal whether to do it. Nobody may catch signals meanwhile: the person could not leave.
func agree(cmd *cobra.Command, what string) error {
	in := cmd.InOrStdin()
	if !isTerminal(in) {
		return usage("it would %s: say --yes if that is meant", plain(what))
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s? [y/N] ", plain(what))
	answer, _ := bufio.NewReader(in).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}

// printJSONLines prints each value on a line of its own.
func printJSONLines[T any](out io.Writer, values []T) error {
	for _, value := range values {
		if err := printJSON(out, value); err != nil {
			return err
		}
	}
	return nil
}

// printJSON writes one line of JSON in which nothing can move a cursor.
func printJSON(out io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = out.Write(append(logbook.EscapeJSON(text), '\n'))
	return err
}
