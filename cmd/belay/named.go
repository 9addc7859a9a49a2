package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

// A namedAct is a command that does one thing to each item that its arguments name, such as a queue or a limit.
// It reports all items that do not exist in one error at the end.
type namedAct struct {
	use, short, long, example string
	// past is what was done to an item, such as "removed". absence is what it means that there is no such item;
	// empty if that needs no words.
	past, absence string
	// args checks the arguments. names returns the items from them; nil if all arguments are items.
	args  cobra.PositionalArgs
	names func(args []string) ([]string, error)
	// question is what --yes confirms; nil for an act that needs no confirmation.
	question func(names []string) string
	// home is set for items that only one shard has: see withHome.
	home bool
	// do acts on an item. look describes an item as it is, for --dry-run; a command without it has no such
	// flag.
	do, look itemFunc
}

// An itemFunc does something with an item, and returns what to print after its name; found is false if there is
// no such item. Its context ends after statusTimeout.
type itemFunc func(ctx context.Context, i *inspect.Inspector, name string) (answer string, found bool, err error)

// doing returns the do of an act that only reports whether the item was found.
func doing(answer string, act func(*inspect.Inspector, context.Context, string) (found bool, err error)) itemFunc {
	return func(ctx context.Context, i *inspect.Inspector, name string) (string, bool, error) {
		found, err := act(i, ctx, name)
		return answer, found, err
	}
}

// command makes the command.
func (a namedAct) command(at *redisFlags) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{Use: a.use, Short: a.short, Long: a.long, Example: a.example, Args: a.args}
	if a.question != nil {
		cmd.Flags().BoolP("yes", "y", false, "do not ask")
	}
	if a.look != nil {
		cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what is there, and change nothing")
	}
	with := withInspector
	if a.home {
		with = withHome
	}
	cmd.RunE = with(at, func(cmd *cobra.Command, i *inspect.Inspector, names []string) (err error) {
		if a.names != nil {
			if names, err = a.names(names); err != nil {
				return err
			}
		}
		if a.question != nil && !dryRun {
			// No signal is caught before the answer: one at the question ends the program at once.
			if err := confirm(cmd, a.question(names)); err != nil {
				return err
			}
		}
		ctx, stop := untilSignal()
		defer stop()
		err = each(names, func(name string) (found bool, err error) {
			if ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			answer, found, err := a.item(ctx, i, name, dryRun)
			switch {
			case err != nil && ctx.Err() != nil && dryRun:
				err = context.Cause(ctx)
			case err != nil && ctx.Err() != nil:
				err = fmt.Errorf("%w: %s may have been %s", context.Cause(ctx), name, a.past)
			case err == nil && found:
				printLine(cmd, name+": "+answer)
			}
			return found, err
		})
		if _, isAbsent := errors.AsType[absentError](err); isAbsent && a.absence != "" {
			err = fmt.Errorf("%w: %s", err, a.absence)
		}
		return err
	})
	return cmd
}

// item does the act on one item, or describes the item for a dry run.
func (a namedAct) item(ctx context.Context, i *inspect.Inspector, name string, dryRun bool) (answer string, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if !dryRun {
		return a.do(ctx, i, name)
	}
	answer, found, err = a.look(ctx, i, name)
	return answer + "; it was not " + a.past, found, err
}
