package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/retry"
)

// Whatever was refused before a run began, that run knows the latest position of it, at each of its retries as
// well; and what was refused while it ran, the one more run knows.
func TestARunKnowsThePositionsOfWhatWasRefusedBeforeIt(t *testing.T) {
	t.Parallel()
	eachGuild(t, func(t *testing.T, g *guild) {
		position := dedup.LSN(9 << 32)
		push := func(rule *dedup.Rule, arg int) (jid, holder string) {
			position += 7<<32 | 5 // "9" is followed by "10"
			item := ofOne(rule)
			item.ArgsJSON, item.WAL = fmt.Sprintf("[%d]", arg), dedup.WAL{"main": position}
			receipt := g.ask(item)
			return receipt.JID, receipt.Holder
		}
		last := make(map[string]dedup.LSN) // by jid of the job that runs
		rules := []*dedup.Rule{untilExecuting(), untilExecuted(), onceMore()}
		jids := make([]string, len(rules))
		for range 10 {
			for n, rule := range rules {
				jid, holder := push(rule, n)
				if holder == "" {
					jids[n] = jid
				}
				require.Contains(t, []string{"", jids[n]}, holder)
				last[jids[n]] = position
			}
		}

		type sight struct {
			jid  string
			main dedup.LSN
		}
		seen := make(chan sight, 100)
		failed := make(chan string, 100)
		stop := g.serve(func(ctx context.Context, j *job.Job) error {
			seen <- sight{j.JID(), launcher.WAL(ctx)["main"]}
			if _, again := j.RetryCount(); !again && len(failed) < len(rules) {
				failed <- j.JID()
				return retry.In(10*time.Millisecond, errors.New("on purpose"))
			}
			return nil
		})
		g.settles()
		require.Len(t, seen, 2*len(rules))
		for range 2 * len(rules) {
			s := <-seen
			require.Equal(t, last[s.jid], s.main, "the run of %s", s.jid)
		}
		stop()

		var during dedup.LSN
		first, _ := push(onceMore(), 7)
		before := position
		stop = g.serve(func(ctx context.Context, j *job.Job) error {
			seen <- sight{j.JID(), launcher.WAL(ctx)["main"]}
			if j.JID() == first {
				_, holder := push(onceMore(), 7)
				require.Equal(t, first, holder)
				during = position
			}
			return nil
		})
		g.settles()
		stop()
		require.Equal(t, sight{first, before}, <-seen)
		require.Equal(t, during, (<-seen).main)
		require.Empty(t, seen)
	})
}
