package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

// returnFromGitLab looks for lists of GitLab's reliable fetch, and recovers those of dead processes.
func returnFromGitLab(ctx context.Context, cmd *cobra.Command, i *inspect.Inspector, of inspect.FromGitLab, timeout time.Duration, dryRun, asJSON bool) error {
	limited, cancel := context.WithTimeout(ctx, timeout+of.Doubt)
	defer cancel()
	out, errs := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if dryRun {
		look, err := i.LookAtGitLab(limited)
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		if asJSON {
			return printJSON(out, look)
		}
		if err := printParts(out, false, look.Lists, func(t *table) {
			t.row("QUEUE", "PROCESS", "STATE", "JOBS")
			for _, list := range look.Lists {
				t.row(cmp.Or(list.Queue, list.Key), list.Process, string(list.State), list.Jobs)
			}
		}); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%d jobs would be returned\n%d in GitLab's set of interrupted jobs\n", look.Jobs, look.Interrupted)
		return err
	}
	of.Log = zerolog.New(console(errs)).With().Timestamp().Logger()
	of.Found = func(look inspect.GitLabLook) {
		if look.Jobs > 0 {
			_, _ = fmt.Fprintf(errs, "%d jobs of processes without a heartbeat; waiting %v for one\n", look.Jobs, of.Doubt)
		}
	}
	result, err := i.ReturnFromGitLab(limited, of)
	if err != nil && ctx.Err() != nil {
		err = cmp.Or(context.Cause(ctx), err)
	}
	if asJSON {
		_ = printJSON(out, result)
		return err
	}
	_, _ = fmt.Fprintf(out, "%d recovered, %d of them moved to the dead set\nlists: %d emptied, %d of living processes, %d unclear\n%d in GitLab's set of interrupted jobs\n",
		result.Recovered, result.Dead, result.Lists, result.Alive, result.Unclear, result.Interrupted)
	return err
}
