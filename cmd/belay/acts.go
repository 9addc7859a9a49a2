package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/job"
)

const actHelp = `

The command works page by page and reports its progress every two seconds. You can interrupt it at any moment, even with
kill -9, and run it again: each job is moved in one step. --all and --class mean the jobs that were there when it began.
With --dry-run it only counts them.`

// An act moves or deletes jobs of a listing.
type act struct {
	cmd       *cobra.Command
	inspector *inspect.Inspector
	listing   listing
	action    inspect.Action
	selection inspect.Selection
	to        string     // the target queue of a move
	due       due        // the time of a reschedule
	dead      deadLimits // of a kill
	dryRun    bool
}

// An actText is the help of a command that acts on jobs.
type actText struct{ short, long string }

// newActs makes a command for each action that is possible in a listing. Only the commands that move jobs have
// another form, because they name a second queue.
func newActs(at *redisFlags, l listing, texts map[inspect.Action]actText) (commands []*cobra.Command) {
	for _, action := range inspect.ActionsIn(l.places...) {
		if action != inspect.Move {
			commands = append(commands, newAct(at, l, action, texts[action]))
		}
	}
	return commands
}

func newAct(at *redisFlags, l listing, action inspect.Action, text actText) *cobra.Command {
	a := &act{cmd: &cobra.Command{Use: string(action) + " " + l.queue + "[JID]...", Short: text.short, Long: text.long}, listing: l, action: action}
	if action == inspect.Retry {
		a.cmd.SuggestFor = []string{"run"}
	}
	set := a.cmd.Flags()
	a.registerFilter(at, "all jobs")
	set.BoolVar(&a.selection.All, "all", false, "all jobs")
	examples := []string{"217d2cffc30f4a168b3a76d9", "--class WelcomeEmail", "--all" + word(action.Destroys(), " --yes")}
	if action.Destroys() {
		set.BoolVar(&a.selection.Unreadable, "unreadable", false, "all unreadable entries")
		set.BoolP("yes", "y", false, "do not ask before --all, --unreadable and filters such as --class")
	}
	switch action {
	case inspect.Kill:
		a.dead.register(set)
		a.cmd.Long += deadLimitsHelp
	case inspect.Retry:
		set.IntVar(&a.selection.PayloadLimit, "payload-limit", job.DefaultPayloadLimit,
			"the --payload-limit of the workers, in `BYTES`: jobs that died because of their size and exceed it are refused")
	case inspect.Reschedule:
		a.due.register(set, "them")
		examples = []string{"217d2cffc30f4a168b3a76d9 --in 10m", "--class Report --at 2026-12-24T18:00:00+01:00"}
	}
	a.cmd.Long += actHelp
	for n, words := range examples {
		examples[n] = "  belay %[1]s " + string(action) + " %[2]s" + words
	}
	a.cmd.Example = l.example(strings.Join(examples, "\n"))
	return a.complete(at)
}

// newClear completes a command that deletes all jobs of a listing.
func newClear(at *redisFlags, l listing, cmd *cobra.Command) *cobra.Command {
	a := &act{cmd: cmd, listing: l, action: inspect.Delete, selection: inspect.Selection{All: true}}
	cmd.Flags().BoolP("yes", "y", false, "do not ask")
	return a.complete(at)
}

// registerFilter adds the flags that choose jobs by their payloads. A job must match all of them.
func (a *act) registerFilter(at *redisFlags, jobs string) {
	set := a.cmd.Flags()
	registerFilter(set, &a.selection.Filter, jobs)
	if a.listing.queue == "" {
		set.StringVarP(&a.selection.Queue, "queue", "q", "", jobs+" of this `QUEUE`")
	}
	at.completeFilter(a.cmd, a.listing.places)
}

func (a *act) registerDryRun() {
	a.cmd.Flags().BoolVar(&a.dryRun, "dry-run", false, "count the jobs that match, by class and class of error, and change nothing")
}

// complete adds what all acts share. A command has set Args if its arguments are special.
func (a *act) complete(at *redisFlags) *cobra.Command {
	if a.cmd.Args == nil {
		a.cmd.Args = func(_ *cobra.Command, args []string) error {
			_, ids, err := a.homes(args)
			if err != nil {
				return err
			}
			return a.choose(ids)
		}
	}
	a.registerDryRun()
	withJSON(a.cmd).RunE = withInspector(at, func(_ *cobra.Command, i *inspect.Inspector, args []string) error {
		a.inspector = a.dead.of(i)
		homes, _, err := a.homes(args)
		if err != nil {
			return err
		}
		return a.run(homes)
	})
	return a.cmd
}

// homes returns where the action is possible, of the listing that the command names, and the arguments after
// the queue.
func (a *act) homes(args []string) ([]inspect.Home, []string, error) {
	query, rest, err := a.listing.query(args)
	homes := inspect.HomesIn(query.Queue, a.listing.places...)
	return slices.DeleteFunc(homes, func(home inspect.Home) bool { return !a.action.PossibleIn(home.Place()) }), rest, err
}

// choose sets the jobs by ID, and requires exactly one way to select jobs.
func (a *act) choose(ids []string) error {
	ways := 0
	filter := a.selection.Filter
	filter.Unreadable = false
	for _, given := range []bool{len(ids) > 0, a.selection.All, filter != inspect.Filter{}, a.selection.Unreadable} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return usage("which jobs? Give JIDs, --all, or a filter such as --class or --text")
	}
	a.selection.IDs = ids
	if a.action == inspect.Kill {
		return a.dead.check()
	}
	return nil
}

// many reports whether flags choose the jobs, and no JIDs.
func (a *act) many() bool { return len(a.selection.IDs) == 0 }

// run acts on these homes, one after the other.
func (a *act) run(homes []inspect.Home) error {
	if a.dryRun {
		return a.preview(homes)
	}
	// No signal is caught before the answer: one at the question ends the program at once.
	if err := a.confirm(homes); err != nil {
		return err
	}
	ctx, stop := untilSignal()
	defer stop()
	var sum inspect.ActCounts
	reported := time.Now()
	selection := a.selection
	until, err := a.instant(ctx)
	if err != nil {
		return err
	}
	targets, err := a.targets(ctx, homes)
	if err != nil {
		return err
	}
	for _, home := range targets {
		before := sum
		progress := func(counts inspect.ActCounts) {
			if now := time.Now(); now.Sub(reported) >= progressEvery {
				reported = now
				printErr(a.cmd, fmt.Sprintf("%d %s so far", before.Moved+counts.Moved, a.action.Past()))
			}
		}
		var counts inspect.ActCounts
		counts, err = a.inspector.Act(ctx, inspect.Task{Home: home, Action: a.action, Selection: selection, To: a.to, At: until}, progress)
		sum.Add(counts)
		selection.IDs = counts.Missing // they may be in the next home
		if err != nil || a.many() == (len(counts.Missing) > 0) {
			break
		}
	}
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	return a.report(homes, sum, err)
}

// targets returns these homes, and before them the gates at which jobs of a queue may wait, because an admitted
// job goes to its queue.
func (a *act) targets(ctx context.Context, homes []inspect.Home) ([]inspect.Home, error) {
	if !a.waiters() {
		return homes, nil
	}
	gates, err := a.inspector.WaitersOf(ctx, cmp.Or(a.selection.Queue, homes[len(homes)-1].Queue()))
	return append(gates, homes...), err
}

// waiters reports whether jobs that wait at gates are among those of the listing on which the act is done.
func (a *act) waiters() bool {
	return slices.Contains(a.listing.places, inspect.PlaceWaiting) && a.action.PossibleIn(inspect.PlaceWaiting)
}

// preview prints how many jobs the act would be done on. It reads as the act does, and changes nothing. Jobs
// that are named and are not there are an error, as they are for the act.
func (a *act) preview(homes []inspect.Home) error {
	query := inspect.Query{IDs: a.selection.IDs, Filter: a.selection.Filter}
	for _, home := range homes {
		query.Places = append(query.Places, home.Place())
		query.Queue = cmp.Or(query.Queue, home.Queue())
	}
	if a.waiters() {
		query.Places = append(query.Places, inspect.PlaceWaiting)
	}
	groups, err := groupsOf(a.cmd, a.inspector, query)
	if err != nil {
		return err
	}
	err = show(a.cmd, groups, func(t *table) {
		printGroups(t, groups.Groups)
		match := "jobs match"
		if groups.Jobs == 1 {
			match = "job matches"
		}
		t.row(fmt.Sprintf("%d %s, and none was %s", groups.Jobs, match, a.action.Past()))
	})
	if err != nil || a.many() {
		return err
	}
	found, err := a.inspector.FindAll(context.Background(), query, nil)
	if err != nil {
		return err
	}
	var missing []string
	for _, f := range found {
		if f.Place == inspect.PlaceNotFound {
			missing = append(missing, f.JID)
		}
	}
	return absent(missing)
}

// report prints the result.
func (a *act) report(homes []inspect.Home, sum inspect.ActCounts, err error) error {
	_ = show(a.cmd, sum, func(t *table) {
		t.row(fmt.Sprintf("%d %s", sum.Moved, a.action.Past()))
		if sum.Gone > 0 && a.many() {
			t.row(fmt.Sprintf("%d were taken by others first", sum.Gone))
		}
	})
	for _, gem := range slices.Sorted(maps.Keys(sum.Locked)) {
		printErr(a.cmd, fmt.Sprintf("warning: %d of them are locked by %s, and a run in Go does not release that lock: drop it first, see docs/ruby.md", sum.Locked[gem], gem))
	}
	for _, problem := range sum.Problems {
		if !asJSON(a.cmd) {
			printErr(a.cmd, problem)
		}
	}
	if sum.Moved == 0 && err == nil && a.listing.queue != "" {
		hintQueue(a.cmd, a.inspector, homes[len(homes)-1].Queue())
	}
	switch {
	case interrupted(err):
		return fmt.Errorf("%w: %d were %s; the others are where they were", err, sum.Moved, a.action.Past())
	case err != nil:
		return fmt.Errorf("%w (%d were %s before, perhaps a page more; run it again to continue)", err, sum.Moved, a.action.Past())
	case sum.Refused > 0:
		return fmt.Errorf("%d could not be moved and are where they were", sum.Refused)
	}
	return absent(sum.Missing)
}

// each applies a function to each named item. All items that do not exist are reported in one error at the end.
func each(names []string, do func(name string) (there bool, err error)) error {
	var missing []string
	for _, name := range names {
		there, err := do(name)
		if err != nil {
			return err
		}
		if !there {
			missing = append(missing, name)
		}
	}
	return absent(missing)
}

// checkFound returns the error of reading an item, or an error that it does not exist; nil if it was found.
func checkFound(name string, found bool, err error) error {
	if err == nil && !found {
		err = absent([]string{name})
	}
	return err
}

// absent returns an error about items that do not exist; nil if there are none.
func absent(ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return statusError{absentError{ids}, exitAbsent}
}

// listed joins the first names of a list, and counts the rest.
func listed(names []string, most int) string {
	more := len(names) - most
	return strings.Join(names[:min(len(names), most)], ", ") + word(more > 0, fmt.Sprintf(" and %d more", more))
}

// confirm asks before many jobs are destroyed. Without a terminal --yes is required.
func (a *act) confirm(homes []inspect.Home) error {
	turn := turnOf(a.cmd)
	if !a.many() || confirmed(a.cmd) || turn.agreed || !a.action.Destroys() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	size := 0
	for _, i := range turn.inspectors(a.inspector) {
		n, err := sizeOf(ctx, i, homes)
		if err != nil && i == a.inspector {
			return err
		}
		size += n // nothing of a shard that is away
	}
	of := a.selection
	which := filterWords(of.Filter)
	switch {
	case which != "":
		which = fmt.Sprintf("jobs%s among the %d", which, size)
	case of.Unreadable:
		which = fmt.Sprintf("unreadable entries among the %d", size)
	default:
		which = fmt.Sprintf("%d jobs", size)
	}
	waiting := word(a.waiters(), ", and those of its jobs that wait for limits")
	return confirm(a.cmd, fmt.Sprintf("%s all %s in %s%s", a.action, which, homes[0], waiting))
}

// confirmed reports whether --yes is given.
func confirmed(cmd *cobra.Command) bool {
	yes, _ := cmd.Flags().GetBool("yes")
	return yes
}

// confirm asks at a terminal, unless --yes is given. It must run while no signals are caught; otherwise Ctrl-C
// could not end the program at the question.
func confirm(cmd *cobra.Command, what string) error {
	in, turn := cmd.InOrStdin(), turnOf(cmd)
	if len(turn.fleet) > 0 {
		what += fmt.Sprintf(", in all %d shards", len(turn.fleet))
	}
	switch {
	case confirmed(cmd), turn.agreed:
		return nil
	case !isTerminal(in):
		return usage("it would %s: give --yes if you mean that", plain(what))
	}
	cmd.PrintErrf("%s? [y/N] ", plain(what))
	answer, _ := bufio.NewReader(in).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errDeclined
	}
	turn.agreed = true
	return nil
}

// instant returns the time of a reschedule, which --in or --at gives.
func (a *act) instant(ctx context.Context) (time.Time, error) {
	flags := a.cmd.Flags()
	switch {
	case a.action != inspect.Reschedule:
		return time.Time{}, nil
	case flags.Changed("in") == flags.Changed("at"):
		return time.Time{}, usage("when? Give --in or --at")
	}
	at, err := a.due.instant()
	if err != nil || !at.IsZero() {
		return at, err
	}
	now, err := a.inspector.Now(ctx)
	return now.Add(a.due.in), err
}

// deadLimits are the flags of commands that add to the dead set.
type deadLimits struct {
	limit int
	keep  time.Duration
}

// deadLimitsHelp says what the flags are for.
const deadLimitsHelp = `

A full dead set loses its oldest jobs to new ones. If the workers have a DeadLimit or DeadFor of their own, pass the same as
--dead-limit and --dead-for.`

func (l *deadLimits) register(set *pflag.FlagSet) {
	set.IntVar(&l.limit, "dead-limit", inspect.DefaultDeadLimit, "the DeadLimit of the workers: this many `JOBS` may stay in the dead set")
	set.DurationVar(&l.keep, "dead-for", inspect.DefaultDeadFor, "the DeadFor of the workers: a job may stay in the dead set for this time")
}

func (l *deadLimits) check() error {
	if l.limit < 1 || l.keep < time.Second {
		return usage("--dead-limit %d and --dead-for %v: they must be at least 1 and 1s", l.limit, l.keep)
	}
	return nil
}

// of returns the Inspector with these limits.
func (l *deadLimits) of(i *inspect.Inspector) *inspect.Inspector {
	return i.WithDeadLimits(l.limit, l.keep)
}
