package main

import (
	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/job"
)

// newQueueMove makes the command that rescues jobs from a misspelled queue.
func newQueueMove(at *redisFlags) *cobra.Command {
	var flags actFlags
	cmd := &cobra.Command{
		Use:   "move FROM TO [JID]...",
		Short: "Move jobs from one queue to another",
		Long: `Moves the waiting jobs of a queue to the back of another queue, in the same order: all of them, those of --class, or
those that you name. Quarantined jobs become quarantined jobs of the other queue. Only the queue's name changes in a job; a
unique job keeps its lock. Unreadable entries stay. Running jobs are not affected, and their retries go to the old queue.

The command works page by page and reports its progress every two seconds. You can interrupt it at any moment, even with
kill -9, and run it again: each job is moved in one step. It moves the jobs that were there when it began, so run it again if
programs still push to the old queue.

` + actStatus,
		Example: "  belay queues move mial mail\n  belay queues move default mail --class WelcomeEmail",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || args[0] == "" {
				return usage("name the queue to move from and the queue to move to")
			}
			if args[0] == args[1] {
				return usage("the two queues are the same")
			}
			if err := job.CheckQueue(args[1]); err != nil {
				return usageError{err}
			}
			if flags.selection.All = len(args) == 2 && flags.selection.Class == ""; flags.selection.All {
				return nil
			}
			return flags.choose(args[2:])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			homes, _ := inQueue(args)
			return withInspector(at, func(i *inspect.Inspector) error {
				return operation{cmd: cmd, inspector: i, action: moved, flags: flags, queue: args[0], to: args[1]}.in(homes...)
			})
		},
	}
	cmd.Flags().StringVar(&flags.selection.Class, "class", "", "all of this `CLASS`")
	cmd.Flags().BoolVar(&flags.asJSON, "json", false, "print what came of it as one JSON object")
	return cmd
}
