package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

const limitsHelp = `Lists the limits: how many jobs of a class may run at once in the fleet (CONCURRENCY), and how many may start in a time
(RATE). Programs declare limits with their classes (belay.Limited), and an operator may set another size: SOURCE says
whose size is in force.

A job that may not start leaves its process and waits; it costs nothing until the end of another run, or the passing of
time, lets it start. Jobs of one limit with one key share a gate, and wait there in the order in which they came: five
webhooks at once for each tenant are one limit with a gate for each tenant. ADMITTED are jobs that had been waiting, may
start, and are in their queue again. OLDEST is how long ago the next waiting job was enqueued.

Waiting jobs are in no queue and not in its latency, because no further worker could start them. belay list waiting shows
them, and belay find JID where one waits. A key stands behind the name and a colon: webhooks:acme.`

func newLimits(at *redisFlags) *cobra.Command {
	cmd := withJSON(&cobra.Command{
		Use:   "limits",
		Short: "List limits of concurrency and rate, and change them",
		Long:  limitsHelp,
		Example: `  belay limits
  belay limits show webhooks --key acme
  belay limits set webhooks --concurrency 10
  belay limits set geocoder --rate 100/1m
  belay limits set geocoder --concurrency 0      so that no job of it starts
  belay limits reset geocoder`,
		Args: noWords,
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, _ []string) error {
			limits, err := i.Limits(context.Background())
			if err != nil {
				return err
			}
			printProblems(cmd, limits.Problems)
			return showAll(cmd, limits.Limits, func(t *table) {
				heads := []any{"LIMIT", "CONCURRENCY", "RATE", "SOURCE", "RUNNING", "ADMITTED", "WAITING", "GATES", "OLDEST"}
				rows(t, heads, limits.Limits, func(l inspect.Limit) []any {
					return []any{
						cut(l.Name, 64), concurrencyOf(l), cmp.Or(l.Rate, "-"), cmp.Or(string(l.Source), "-"),
						l.Running, l.Admitted, l.Waiting, l.Gates, oldest(l.Oldest),
					}
				})
				t.row(plural(len(limits.Limits), "1 limit", "%d limits"))
			})
		}),
	})
	cmd.AddCommand(newLimitShow(at), newLimitSet(at), newLimitReset(at), newLimitRemove(at), newLimitCheck(at))
	return cmd
}

func printProblems(cmd *cobra.Command, problems []string) {
	for _, problem := range problems {
		printErr(cmd, problem)
	}
}

// concurrencyOf returns the concurrency of a limit for a table.
func concurrencyOf(l inspect.Limit) string {
	if l.Concurrency == nil {
		return "-"
	}
	return strconv.Itoa(*l.Concurrency)
}

func oldest(d inspect.Seconds) string {
	if d.Duration == 0 {
		return "-"
	}
	return short(d)
}

func newLimitShow(at *redisFlags) *cobra.Command {
	var key string
	cmd := at.masking(withJSON(&cobra.Command{
		Use:   "show LIMIT",
		Short: "Show the gates of a limit, and which runs hold its slots",
		Long: `Shows the gates of a limit that have jobs, and the runs and callers of belay.Do that have its slots. With
--key it shows the gate for that key alone, and the next 25 jobs that wait there. A gate is stopped for a time when a
handler has returned belay.RateLimited.`,
		Example: "  belay limits show webhooks\n  belay limits show webhooks --key acme\n  belay limits show webhooks --json | jq -r '.holders[].jid'",
		Args:    oneArg("name one limit, as belay limits shows it"),
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, args []string) error {
			var of *string
			if cmd.Flags().Changed("key") {
				of = &key
			}
			d, found, err := i.Limit(context.Background(), args[0], of)
			if err := checkFound(args[0], found, err); err != nil {
				return err
			}
			if !asJSON(cmd) {
				printProblems(cmd, d.Problems)
			}
			return show(cmd, d, func(t *table) { printLimit(t, d) })
		}),
	}))
	cmd.Flags().StringVar(&key, "key", "", "only the gate for this `KEY`, which may be empty")
	return cmd
}

func printLimit(t *table, d inspect.LimitDetails) {
	t.field("limit", d.Name)
	t.field("concurrency", concurrencyOf(d.Limit))
	t.field("rate", cmp.Or(d.Rate, "-"))
	t.field("source", string(d.Source))
	t.instant("seen", d.SeenAt)
	t.section(fmt.Sprintf("gates: %d", len(d.Gates)))
	rows(t, []any{"GATE", "RUNNING", "ADMITTED", "WAITING", "QUEUE", "OLDEST", ""}, d.Gates, func(g inspect.Gate) []any {
		stopped := word(g.Stopped.Duration > 0, "stopped for "+short(g.Stopped))
		return []any{cut(g.Name, 80), g.Running, g.Admitted, g.Waiting, cmp.Or(cut(g.Queue, 40), "-"), oldest(g.Oldest), stopped}
	})
	t.section(fmt.Sprintf("slots in use: %d", len(d.Holders)))
	rows(t, []any{"JID", "CLASS", "GATE", "SINCE", "PROCESS"}, d.Holders, func(h inspect.Holder) []any {
		if h.Lease != "" {
			return []any{"-", "belay.Do", cut(h.Gate, 80), "-", h.Lease}
		}
		return []any{h.JID, cut(h.Class, 40), cut(h.Gate, 80), localTime(&h.Since), h.Process + word(h.State != inspect.StateAlive, " ("+string(h.State)+")")}
	})
	if len(d.Waiters) > 0 {
		t.section("next to start")
	}
	rows(t, entryHeads, d.Waiters, func(e inspect.Entry) []any {
		e.Gate = "" // it is that of all of them
		return entryCells(e)
	})
}

func newLimitSet(at *redisFlags) *cobra.Command {
	var change inspect.LimitChange
	// The note is read before the act, which makes the limit known.
	answer := func(note string, l inspect.Limit, err error) (string, bool, error) {
		return sizeWords(l) + note, true, limitUsage(err)
	}
	cmd := namedAct{
		use: "set LIMIT", short: "Give a limit another size", past: "set",
		long: `Gives a limit another size, in force from the next start of a job on. What no flag names stays as it is. Programs do not
replace it, until belay limits reset. A lower concurrency stops no run: nothing starts until enough runs have ended. With a
higher one waiting jobs start within seconds.

There need be no such limit: a note says so, and the size is in force when a program declares it.`,
		example: `  belay limits set webhooks --concurrency 10
  belay limits set geocoder --rate 100/1m          100 starts in any minute
  belay limits set geocoder --rate leaky:100/1m    100 at once, and then one each 600 ms
  belay limits set geocoder --concurrency none --rate none`,
		args: oneArg("name one limit"),
		do: func(ctx context.Context, i *inspect.Inspector, name string) (string, bool, error) {
			note := notRegistered(ctx, i, name)
			size, err := i.SetLimit(ctx, name, change)
			return answer(note, size, err)
		},
		look: func(ctx context.Context, i *inspect.Inspector, name string) (string, bool, error) {
			note := notRegistered(ctx, i, name)
			size, err := i.PreviewLimit(ctx, name, change)
			words, found, err := answer(note, size, err)
			return "would have " + words, found, err
		},
	}.command(at)
	cmd.Flags().StringVar(&change.Concurrency, "concurrency", "", "how many jobs run at once: a `NUMBER`, 0 to start none, or none for any number")
	cmd.Flags().StringVar(&change.Rate, "rate", "", "how many jobs start in a time: a `RATE` such as 100/1m or leaky:100/1m, or none for any number")
	return cmd
}

// notRegistered is a note about a limit whose name may be misspelled: no program has registered it. It is empty
// if one has, if the limit has jobs, or if that is unknown.
func notRegistered(ctx context.Context, i *inspect.Inspector, name string) string {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout/2) // the rest is for the act
	defer cancel()
	used := func(l inspect.Limit) bool { return !l.SeenAt.IsZero() || l.Running+l.Admitted+l.Waiting > 0 }
	d, _, err := i.Limit(ctx, name, nil)
	list, listErr := i.Limits(ctx)
	if cmp.Or(err, listErr) != nil || used(d.Limit) {
		return ""
	}
	var known []string
	for _, l := range list.Limits {
		if used(l) {
			known = append(known, l.Name)
		}
	}
	return " (no program has registered it" + suggestion(name, known) + ")"
}

// limitUsage returns an error of an act on a limit, as a wrong command line if no limit can have the act.
func limitUsage(err error) error {
	if errors.Is(err, inspect.ErrLimitChange) {
		return usage("%w", err)
	}
	return err
}

// noSize is what it means that there is no limit with a name.
const noSize = "no program has registered such a limit, and no operator has set one"

// sizeWords describes the size of a limit.
func sizeWords(l inspect.Limit) string {
	return fmt.Sprintf("concurrency %s, rate %s", concurrencyOf(l), cmp.Or(l.Rate, "-"))
}

// lookAtLimit describes a limit that has a size, for the acts that take the size away.
func lookAtLimit(ctx context.Context, i *inspect.Inspector, name string) (string, bool, error) {
	if err := inspect.CheckChangeable(name); err != nil {
		return "", false, limitUsage(err)
	}
	d, found, err := i.Limit(ctx, name, nil)
	return fmt.Sprintf("%s, source %s, %d running, %d waiting", sizeWords(d.Limit), d.Source, d.Running, d.Waiting), found && d.Source != "", err
}

func newLimitReset(at *redisFlags) *cobra.Command {
	return namedAct{
		use: "reset LIMIT[:KEY]...", short: "Give limits the size of the programs again, or repair a gate's counts", past: "reset", absence: noSize,
		long: `Gives limits that an operator has set the size that programs declare, which they register within half a minute; until then the
operator's size is in force.

With a key it sets the counts of that gate to the slots that processes hold and to the jobs that were admitted: belay
limits check says whether they differ. A limit without keys has one gate, whose name ends with the colon.`,
		example: "  belay limits reset webhooks\n  belay limits reset webhooks:acme\n  belay limits reset geocoder:",
		args:    someArgs("name the limits, or gates of them"),
		do: func(ctx context.Context, i *inspect.Inspector, name string) (string, bool, error) {
			if strings.Contains(name, ":") {
				was, err := i.ResetGate(ctx, name)
				return fmt.Sprintf("%d running (was %d), %d admitted (was %d)", was.Slots, was.Running, was.Admissions, was.Admitted), true, err
			}
			found, err := i.ResetLimit(ctx, name)
			return "reset", found, limitUsage(err)
		},
		look: func(ctx context.Context, i *inspect.Inspector, name string) (string, bool, error) {
			if !strings.Contains(name, ":") {
				return lookAtLimit(ctx, i, name)
			}
			is, err := i.CheckGate(ctx, name)
			return fmt.Sprintf("would have %d running (has %d), %d admitted (has %d)", is.Slots, is.Running, is.Admissions, is.Admitted), true, err
		},
	}.command(at)
}

func newLimitRemove(at *redisFlags) *cobra.Command {
	return namedAct{
		use: "remove LIMIT...", short: "Remove limits that no program declares", past: "removed", absence: noSize,
		long: `Removes the sizes of limits. Their waiting jobs go back to their queues and start without a limit. A program that still declares
a limit stores it again within half a minute: to lift such a limit use belay limits set with none.`,
		example: "  belay limits remove webhooks",
		args:    someArgs("name the limits, as belay limits shows them"),
		do: func(ctx context.Context, i *inspect.Inspector, name string) (string, bool, error) {
			found, err := i.RemoveLimit(ctx, name)
			return "removed", found, limitUsage(err)
		},
		look: lookAtLimit,
	}.command(at)
}

func newLimitCheck(at *redisFlags) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "check",
		Short: "Compare the counts of limits with the runs that there are",
		Long: `Compares what each gate counts with the slots that processes hold and the jobs that were admitted, at one instant. They are equal,
unless Redis has evicted keys or another program has changed them: then a limit lets too few jobs start, or too many. It
prints the gates whose counts are wrong; belay limits reset LIMIT:KEY repairs one.`,
		Example: "  belay limits check\n  belay limits check --json | jq -r '.wrong[].gate' | xargs belay limits reset",
		Args:    noWords,
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, _ []string) error {
			check, err := i.CheckLimits(context.Background())
			if err != nil {
				return err
			}
			if !asJSON(cmd) && len(check.Wrong) > 0 { // else they are the error
				printProblems(cmd, check.Problems)
			}
			err = show(cmd, check, func(t *table) {
				rows(t, []any{"GATE", "RUNNING", "SLOTS", "ADMITTED", "ADMISSIONS", "WAITING", "LOOKED AT"}, check.Wrong, func(g inspect.GateCheck) []any {
					return []any{cut(g.Gate, 80), g.Running, g.Slots, g.Admitted, g.Admissions, g.Waiting, map[bool]string{true: "yes", false: "no"}[g.Indexed]}
				})
				t.row(plural(check.Looked, "1 gate", "%d gates") + " compared, " + plural(len(check.Wrong), "1 is wrong", "%d are wrong"))
			})
			switch {
			case err != nil:
				return err
			case len(check.Wrong) > 0:
				return errors.New("counts are wrong: belay limits reset LIMIT:KEY sets those of a gate")
			case len(check.Problems) > 0: // what was not read may be wrong
				return errors.New("not all counts could be compared: " + strings.Join(check.Problems, "; "))
			}
			return nil
		}),
	})
}
