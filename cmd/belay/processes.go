package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

const processesHelp = `Shows the worker processes, of Belay and of Sidekiq, with what they run, as they told it up to five seconds ago.

With --json it prints one JSON object a line, with the fields of "processes" in belay status --json. At most 1,000 processes
are listed.

Exit status: 0; 1 when Redis cannot be read, or refuses to tell of a process, which standard error names; 2 for a wrong command line.`

func newProcesses(at *redisFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "processes",
		Short: "Show workers, quiet and stop them",
		Long:  processesHelp,
		Example: `  belay processes
  belay processes quiet vm:12923:f641267bd2b0
  belay processes stop --all --yes`,
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withStatus(at, func(s inspect.Status) error {
				return cmp.Or(printProcesses(cmd.OutOrStdout(), s, asJSON), s.ProcessesErr)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	cmd.AddCommand(
		newTell(at, inspect.Quiet, "Let workers take nothing more", `Lets workers take nothing more, and finish what they have. They live on until they are stopped; they cannot be woken.`),
		newTell(at, inspect.Stop, "Let workers end", `Lets workers end: they take nothing more, let jobs run for their shutdown timeout, and hand back what is not done by then.
Whatever supervises them may start them anew.`))
	return cmd
}

func printProcesses(out io.Writer, s inspect.Status, asJSON bool) error {
	if asJSON {
		return printJSONLines(out, s.Processes)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...any) {
		texts := make([]string, len(cells))
		for i, cell := range cells {
			texts[i] = plain(fmt.Sprint(cell))
		}
		_, _ = fmt.Fprintln(t, strings.Join(texts, "\t"))
	}
	row("PROCESS", "STATE", "BUSY", "QUEUES", "RSS", "TAG")
	for _, p := range s.Processes {
		row(p.Identity, stateOf(p), fmt.Sprintf("%d/%d", p.Busy, p.Concurrency), strings.Join(p.Queues, ","),
			fmt.Sprintf("%d MB", p.RSS/1024), p.Tag)
	}
	printRuns(t, row, s.Processes)
	_, _ = fmt.Fprintln(t, "processes: "+count(s.ProcessCount, len(s.Processes)))
	return t.Flush()
}

// newTell is a command that gives processes an order.
func newTell(at *redisFlags, order inspect.Order, short, long string) *cobra.Command {
	var all, yes bool
	cmd := &cobra.Command{
		Use:   string(order) + " IDENTITY...",
		Short: short,
		Long: long + `

The order goes through Redis, as the buttons of Sidekiq's pages do. A process obeys at its next beat, within seconds; a process
of Sidekiq within ten. One that does not beat within a minute never hears of it. IDENTITY is what belay processes shows.

Exit status: 0 when it was sent; 1 when Redis cannot be reached; 2 for a wrong command line; 4 when there is no such process.`,
		Example: fmt.Sprintf("  belay processes %[1]s vm:12923:f641267bd2b0\n  belay processes %[1]s --all --yes", order),
		Args: func(_ *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return usage("say which processes: identities, or --all")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return withInspector(at, func(i *inspect.Inspector) error {
				ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
				defer cancel()
				var unread error
				if all {
					status, err := i.Status(ctx)
					if err != nil {
						return err
					}
					args, unread = living(status), status.ProcessesErr
					if !yes {
						if err := agree(cmd, fmt.Sprintf("%s all %d processes", order, len(args))); err != nil {
							return err
						}
					}
				}
				return cmp.Or(tell(cmd, i, order, args, all), unread)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all that live")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask before --all")
	return cmd
}

// living are the processes that could hear an order.
func living(s inspect.Status) []string {
	var names []string
	for _, p := range s.Processes {
		if p.State == inspect.StateAlive {
			names = append(names, p.Identity)
		}
	}
	return names
}

// tell gives each process the order. Of all, some may have left meanwhile.
func tell(cmd *cobra.Command, i *inspect.Inspector, order inspect.Order, identities []string, all bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	var missing []string
	for _, identity := range identities {
		sent, err := i.Signal(ctx, identity, order)
		switch {
		case err != nil:
			return err
		case sent:
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s: told to %s\n", plain(identity), order)
		case !all:
			missing = append(missing, identity)
		}
	}
	if len(missing) > 0 {
		return absent(missing)
	}
	return nil
}
