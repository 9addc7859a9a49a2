package main

import (
	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/job"
)

// newQueueMove is the way out of a queue that was misspelled at a push.
func newQueueMove(at *redisFlags) *cobra.Command {
	var flags actFlags
	cmd := &cobra.Command{
		Use:   "move FROM TO [JID]...",
		Short: "Move jobs from one queue to another",
		Long: `Moves the jobs that wait in a queue to the back of another one, where they keep their order: all of them, or those of --class, or
those that are named. Its quarantined jobs become quarantined ones of the other queue. Only the name of the queue is changed in a
job; a unique job keeps its lock. What cannot be read stays. What runs goes on, and its retries go to the queue that they would
have gone to.

It works page by page and says how far it has come every two seconds. It may be ended at any moment, kill -9 included, and run
again: each job is moved in one step. It moves what was there when it began: while programs push to the old queue, run it again.

` + actStatus,
		Example: "  belay queues move mial mail\n  belay queues move default mail --class WelcomeEmail",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || args[0] == "" {
				return usage("name the queue to move from and the one to move to")
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
