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

const queuesHelp = `Shows the queues with their sizes, how long their oldest job has been waiting, whether they are paused, and how many of their
jobs are quarantined, that is, wait to run alone. "no consumer" marks a queue from which no living process takes jobs.

With --json it prints one JSON object a line, whose fields stay as they are:
  name, size, latency_seconds, paused, quarantined, quarantined_seconds, in_dead_hands, no_consumer
At most 1,000 queues are listed.

Exit status: 0; 1 when Redis cannot be read, or refuses to tell of a queue, which standard error names; 2 for a wrong command line.`

func newQueues(at *redisFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "queues",
		Short: "Show and act on queues and what waits in them",
		Long:  queuesHelp,
		Example: `  belay queues
  belay queues pause mail
  belay queues list mail --class WelcomeEmail
  belay queues delete mail 217d2cffc30f4a168b3a76d9
  belay queues clear mail --yes`,
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withStatus(at, func(s inspect.Status) error {
				return cmp.Or(printQueues(cmd.OutOrStdout(), s, asJSON), s.QueuesErr)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	cmd.AddCommand(newQueueList(at), newFind(at, "queues", "QUEUE ", inQueue), newQueueDelete(at), newQueueClear(at), newQueueMove(at),
		newPause(at, "pause"), newPause(at, "resume"))
	return cmd
}

// inQueue are the places in which jobs of the queue that is named first wait, and the other words.
func inQueue(args []string) ([]inspect.Home, []string) {
	return []inspect.Home{inspect.Waiting(args[0]), inspect.Quarantined(args[0])}, args[1:]
}

// withStatus reads what there is.
func withStatus(at *redisFlags, do func(inspect.Status) error) error {
	return withInspector(at, func(i *inspect.Inspector) error {
		ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
		defer cancel()
		status, err := i.Status(ctx)
		if err != nil {
			return err
		}
		return do(status)
	})
}

func printQueues(out io.Writer, s inspect.Status, asJSON bool) error {
	if asJSON {
		return printJSONLines(out, s.Queues)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "QUEUE\tSIZE\tLATENCY\t")
	for _, queue := range s.Queues {
		_, _ = fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", plain(queue.Name), queue.Size, short(queue.Latency), queueNotes(queue))
	}
	_, _ = fmt.Fprintln(t, "queues: "+count(s.QueueCount, len(s.Queues)))
	return t.Flush()
}

// queueNotes are what stands behind a queue that is not as usual.
func queueNotes(queue inspect.Queue) string {
	notes := []string{word(queue.Paused, "paused"), quarantined(queue), inDeadHands(queue.HeldByLapsed), word(queue.NoConsumer, "no consumer")}
	return strings.Join(strings.Fields(strings.Join(notes, " ")), " ")
}

func newQueueList(at *redisFlags) *cobra.Command {
	var flags listFlags
	cmd := &cobra.Command{
		Use:   "list QUEUE",
		Short: "Show what waits in a queue",
		Long: `Shows the jobs that wait in a queue, the next one to run first, and after them its quarantined jobs, which wait to run alone.

` + listHelp,
		Example: "  belay queues list mail\n  belay queues list mail --class WelcomeEmail --limit 0 --json",
		Args:    oneQueue,
		RunE: func(cmd *cobra.Command, args []string) error {
			homes, _ := inQueue(args)
			return withInspector(at, func(i *inspect.Inspector) error { return flags.list(cmd, i, homes...) })
		},
	}
	flags.register(cmd.Flags())
	return cmd
}

func oneQueue(_ *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return usage("name one queue")
	}
	return nil
}

func newQueueDelete(at *redisFlags) *cobra.Command {
	flags := actFlags{}
	cmd := &cobra.Command{
		Use:   "delete QUEUE [JID]...",
		Short: "Delete jobs that wait in a queue",
		Long: `Deletes jobs that wait in a queue, or among its quarantined jobs, for good. Of a job that a worker takes just then, one of the two gets
it, and this command says which. A job that is running is in no queue, and cannot be deleted.

In a long queue each one that is deleted costs Redis a search, up to ten milliseconds for each 100,000 jobs. It deletes the fewer
in one step the longer that takes, so that others get their turn. To clear a queue costs no searches.

` + actStatus,
		Example: "  belay queues delete mail 217d2cffc30f4a168b3a76d9\n  belay queues delete mail --class WelcomeEmail --yes",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return usage("name the queue")
			}
			return flags.choose(args[1:])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			homes, _ := inQueue(args)
			return withInspector(at, func(i *inspect.Inspector) error {
				return operation{cmd: cmd, inspector: i, action: inspect.Delete, flags: flags, queue: args[0]}.in(homes...)
			})
		},
	}
	flags.register(cmd.Flags(), inspect.Delete)
	return cmd
}

func newQueueClear(at *redisFlags) *cobra.Command {
	flags := actFlags{selection: inspect.Selection{All: true}}
	cmd := &cobra.Command{
		Use:   "clear QUEUE",
		Short: "Delete all that waits in a queue",
		Long: `Deletes all jobs that wait in a queue, its quarantined jobs included, for good, the oldest first: as many as there were when it began.
What runs goes on. The queue's name stays in the list.

` + actStatus,
		Example: "  belay queues clear mail --yes\n  belay queues pause mail; belay queues clear mail --yes      workers take none of them meanwhile",
		Args:    oneQueue,
		RunE: func(cmd *cobra.Command, args []string) error {
			homes, _ := inQueue(args)
			return withInspector(at, func(i *inspect.Inspector) error {
				return operation{cmd: cmd, inspector: i, action: inspect.Delete, flags: flags, queue: args[0]}.in(homes...)
			})
		},
	}
	cmd.Flags().BoolVarP(&flags.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&flags.asJSON, "json", false, "print what came of it as one JSON object")
	return cmd
}

// newPause makes pause, and resume.
func newPause(at *redisFlags, verb string) *cobra.Command {
	texts := map[string][2]string{
		"pause": {"Let workers take nothing from queues", `Lets workers take nothing more from queues, within a beat. What runs goes on, pushes are accepted, and jobs whose time has come
lie down in them. Sidekiq's own workers heed it only with Pro. It stays until it is resumed.`},
		"resume": {"Let workers take from queues again", `Lets workers take from queues again that were paused.`},
	}
	return &cobra.Command{
		Use:     verb + " QUEUE...",
		Short:   texts[verb][0],
		Long:    texts[verb][1] + "\n\nExit status: 0, also when it was so already; 1 when Redis cannot be reached; 2 for a wrong command line.",
		Example: fmt.Sprintf("  belay queues %[1]s mail\n  belay queues %[1]s mail reports", verb),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("name the queues")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return withInspector(at, func(i *inspect.Inspector) error {
				for _, queue := range args {
					if err := setPaused(cmd, i, verb, queue); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func setPaused(cmd *cobra.Command, i *inspect.Inspector, verb, queue string) error {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	act := i.Pause
	if verb == "resume" {
		act = i.Resume
	}
	changed, err := act(ctx, queue)
	if err != nil {
		return err
	}
	exists, err := i.QueueExists(ctx, queue)
	if err != nil {
		return err
	}
	note := ""
	if !exists {
		names, _ := i.QueueNames(ctx)
		note = " (no job has ever been pushed to it" + meant(queue, names) + ")"
	}
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s: %sd%s%s\n", plain(queue), verb, word(!changed, " already"), note)
	return nil
}
