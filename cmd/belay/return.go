package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/job"
)

const returnHelp = `Puts everything that only workers of Belay would bring back into plain queues, where Sidekiq's own workers take it: the jobs
that dead processes hold, to the heads of their queues, and quarantined jobs, to the backs. Jobs in queues, schedule, retry
and dead need nothing: Sidekiq reads them as they are.

Stop all workers of Belay first. While one is alive the command refuses, and names it; a killed one counts as alive until
its TTL is over. The command takes some seconds, or the longest TTL of the dead processes. You can interrupt it at any
moment, even with kill -9, and run it again: each job moves in one step.

Unique jobs keep their locks until they expire, because Sidekiq releases none: belay locks shows them. Periodic jobs of
Belay are not enqueued any more.

Exit status: 0; 1 if a worker of Belay is alive, if Redis cannot be reached, or if jobs are left after --timeout; 2 for a
wrong command line; 130 or 143 if INT or TERM ended it.`

// newReturn makes the command for the way back to Sidekiq.
func newReturn(at *redisFlags) *cobra.Command {
	var toRuby, asJSON bool
	var limit int
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:     "return --to-ruby",
		Short:   "Put what dead workers of Belay hold into plain queues, for Sidekiq's workers",
		Long:    returnHelp,
		Example: "  belay processes stop --all --yes\n  belay return --to-ruby",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 || !toRuby {
				return usage("say --to-ruby: it is for a fleet that has no workers of Belay any more")
			}
			return nil
		},
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, _ []string) error {
			ctx, stop := untilSignal()
			defer stop()
			limited, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			logger := zerolog.New(console(cmd.ErrOrStderr())).With().Timestamp().Logger()
			returned, err := i.Return(limited, limit, logger)
			if err != nil && ctx.Err() != nil {
				err = cmp.Or(context.Cause(ctx), err)
			}
			if asJSON {
				_ = printJSON(cmd.OutOrStdout(), returned)
				return err
			}
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%d recovered, %d of them moved to the dead set\n%d taken out of quarantine\n",
				returned.Recovered, returned.Dead, returned.Quarantined)
			return err
		}),
	}
	set := cmd.Flags()
	set.BoolVar(&toRuby, "to-ruby", false, "required: no worker of Belay will be started again")
	set.BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	set.IntVar(&limit, "payload-limit", job.DefaultPayloadLimit, "the --payload-limit of the workers, in `BYTES`: larger jobs go to the dead set")
	set.DurationVar(&timeout, "timeout", 2*time.Minute, "how long to try")
	return cmd
}
