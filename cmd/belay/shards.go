package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/inspect"
)

const shardsHelp = `A shard is one of several keyspaces over which the programs of a fleet spread their jobs, because one keyspace is one
thread of one Redis. The parameter shards=N of the URL makes N of them in one Redis Cluster, and --redis NAME=URL, given for
each, makes shards of listed servers. Jobs with a bound key (a unique lock, a Key, a limit, a
batch or a ShardKey) go to the shard that their key decides, among the bound shards; all others go to each shard in turn.
Each keyspace has recorded its name and the names of the bound shards. A program with another list is refused, because it
would look for a lock in another place.

With shards=N in the URL all N are bound. To go from N to M:
  1. Stop the producers of jobs with a bound key; if M is less than N, stop all producers.
  2. Wait until belay shards check --bound, with the old URL, finds none of their keys. If M is less than N, wait also until
     belay shards check NAMES finds nothing in the shards that go.
  3. Run belay shards bind with the new URL, and with the names of all its shards.
  4. Start all programs with the new URL.

A list can also have shards that are not bound: in Go by Unbound of ClientConfig.Shards, and in NAME=URL by the parameter
unbound=true of the URL.
To add a shard:
  1. Start workers that have it as unbound.
  2. Start the producers with it as unbound: jobs without a bound key go there.
To bind it: as above, with a URL of all shards and the names of those that shall be bound. If that is not all of them, programs
with shards=N in their URL are refused from then on.
To remove a shard:
  1. Start the producers with it as closed (Closed, or closed=true). If it is bound, bind the others as above.
  2. Wait until belay shards check NAME finds nothing.
  3. Stop its workers, and start all programs without it.
Belay does not move jobs between shards. In Go, CheckShards and BindShards of package inspect do the same.`

func newShards(at *redisFlags) *cobra.Command {
	example := `  belay shards --redis 'redis+cluster://c1:7000,c2:7000?shards=12' --prefix shop
  belay shards plan -n 12 --prefix shop
  belay shards check 7
  belay shards --redis a=redis://host1 --redis b=redis://host2
  belay shards check --bound --redis "$URL?shards=3" && belay shards bind 0 1 2 3 --redis "$URL?shards=4"`
	list := withShards(at, listShards)
	cmd := withJSON(&cobra.Command{
		Use: "shards", Short: "List, plan, check and bind the shards of a fleet", Long: shardsHelp, Example: example, Args: noWords, RunE: list,
	})
	cmd.AddCommand(withJSON(&cobra.Command{
		Use: "list", Short: "List the shards",
		Long: `Lists the shards of the URL: their prefixes, whether they are bound, and what is left in each. RECORD is "new" if no program
has used the keyspace as a shard.`,
		Example: "  belay shards list\n  belay shards list --json | jq -r 'select(.problem) | .name'",
		Args:    noArgs, RunE: list,
	}), newShardPlan(at), newShardCheck(at), newShardBind(at))
	return cmd
}

// noShards is the error of a command about shards.
const noShards = "the URL has no shards; add ?shards=N, or give --redis NAME=URL for each"

// withShards makes the body of a command about all shards of the URL.
func withShards(at *redisFlags, do func(context.Context, *cobra.Command, *client.Client, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := at.connect(client.Config{})
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		var names []string
		for _, space := range c.Spaces() {
			names = append(names, space.Name)
		}
		if names[0] == "" {
			return usage(noShards)
		}
		for _, name := range args {
			if !slices.Contains(names, name) {
				return usage("there is no shard %q: the shards are %s", name, strings.Join(names, ", "))
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
		defer cancel()
		return do(ctx, cmd, c, args)
	}
}

func listShards(ctx context.Context, cmd *cobra.Command, c *client.Client, _ []string) error {
	checks := inspect.CheckShards(ctx, c)
	if err := showShards(cmd, checks); err != nil {
		return err
	}
	return problemsOf(checks, func(inspect.ShardCheck) string { return "" })
}

// showShards prints a line for each shard.
func showShards(cmd *cobra.Command, checks []inspect.ShardCheck) error {
	return showAll(cmd, checks, func(t *table) {
		t.row("SHARD", "PREFIX", "RECORD", "QUEUED", "RUNNING", "WAITING", "SCHEDULED", "RETRIES", "DEAD", "LOCKS", "GATES", "BATCHES")
		for _, c := range checks {
			record := "new"
			switch {
			case c.Problem != "":
				record = "problem"
			case slices.Contains(c.BoundShards, c.Name):
				record = "bound"
			case len(c.BoundShards) > 0:
				record = "unbound"
			}
			l := c.Left
			t.row(c.Name, c.Prefix, record, l.Queued, l.Running, l.Waiting, l.Scheduled, l.Retries, l.Dead, l.Locks, l.Gates, l.Batches)
		}
	})
}

// problemsOf returns an error that names the shards with a problem, and those of which left says something.
func problemsOf(checks []inspect.ShardCheck, left func(inspect.ShardCheck) string) error {
	var errs []error
	for _, c := range checks {
		if text := cmp.Or(c.Problem, left(c)); text != "" {
			errs = append(errs, fmt.Errorf("shard %s: %s", c.Name, text))
		}
	}
	return errors.Join(errs...)
}

func newShardCheck(at *redisFlags) *cobra.Command {
	var bound bool
	cmd := withJSON(&cobra.Command{
		Use: "check [NAME]...", Short: "Check the records of shards, and whether a shard is empty",
		Long: `Compares what each keyspace has recorded with the shards of the URL, and shows what is left in it. With names it fails unless
nothing is left in these shards: before that, their workers cannot be stopped. With --bound it fails unless no locks, gates of
limits and open batches are left in them, or in any shard: before that, belay shards bind refuses.`,
		Example: `  belay shards check
  belay shards check 7 && echo its workers can be stopped
  until belay shards check --bound; do sleep 10; done`,
		RunE: withShards(at, func(ctx context.Context, cmd *cobra.Command, c *client.Client, names []string) error {
			checks := inspect.CheckShards(ctx, c, names...)
			if err := showShards(cmd, checks); err != nil {
				return err
			}
			return problemsOf(checks, func(c inspect.ShardCheck) string {
				switch {
				case bound && c.Left.Bound() > 0:
					return "bound keys are left"
				case !bound && len(names) > 0 && c.Left.Jobs()+c.Left.Bound() > 0:
					return "it is not empty"
				}
				return ""
			})
		}),
	})
	cmd.Flags().BoolVar(&bound, "bound", false, "fail only if locks, gates of limits or open batches are left")
	return cmd
}

func newShardBind(at *redisFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "bind NAME...", Short: "Record which shards have jobs with a bound key",
		Long: `Records in every shard of the URL which of them have jobs with a bound key: those with these names. The keys of most jobs
belong to other shards then, so it refuses as long as a shard is away, or has locks, gates of limits with jobs, or open batches.
Stop the producers of such jobs before, and start all programs with the new list afterwards: one with another list is refused.

With shards=N in their URL programs bind all N, so name all of them. Fewer names fit only programs that have a list in which the
others are unbound; programs with shards=N in their URL are refused then.`,
		Example: "  belay shards bind 0 1 2 3 --redis 'redis+cluster://c1:7000,c2:7000?shards=4' --yes",
		Args:    someArgs("name all shards that shall have bound keys"),
		RunE: withShards(at, func(_ context.Context, cmd *cobra.Command, c *client.Client, names []string) error {
			question := "place jobs with a bound key on " + strings.Join(names, ", ") + " alone"
			if n := len(c.Spaces()); len(names) < n {
				question += fmt.Sprintf(", so that programs with shards=%d in their URL are refused", n)
			}
			if err := confirm(cmd, question); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.Background(), statusTimeout) // the answer may have taken longer
			defer cancel()
			if err := inspect.BindShards(ctx, c, names...); err != nil {
				return err
			}
			for _, space := range c.Spaces() {
				printLine(cmd, space.Name+": "+map[bool]string{true: "bound", false: "unbound"}[slices.Contains(names, space.Name)])
			}
			return nil
		}),
	}
	cmd.Flags().BoolP("yes", "y", false, "do not ask")
	return cmd
}

// A plannedShard is a line of belay shards plan.
type plannedShard struct {
	Name    string `json:"name"`
	Prefix  string `json:"prefix"`
	Slot    int64  `json:"slot"`
	Primary int64  `json:"primary"`
}

func newShardPlan(at *redisFlags) *cobra.Command {
	var n, primaries int
	cmd := withJSON(&cobra.Command{
		Use: "plan", Short: "Show the shards that a number gives, without Redis",
		Long: `Prints the names and prefixes of -n shards, the slot of each in a Redis Cluster, and on which of its --primaries that is if
they share the slots equally, as after redis-cli --cluster create. The last line says how many shards each of them has.
Choose the number once, a few times the primaries that you expect: the Cluster moves slots when nodes are added, and the
number of shards stays.`,
		Example: "  belay shards plan -n 12\n  belay shards plan -n 24 --primaries 6 --prefix shop",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n < 1 || n > driver.MaxShards || primaries < 1 || primaries > driver.Slots {
				return usage("-n must be from 1 to %d, and --primaries from 1 to %d", driver.MaxShards, driver.Slots)
			}
			var plan []plannedShard
			counts := make([]int, primaries)
			for _, shard := range client.Shards(n) {
				prefix := shard.PrefixIn(at.prefix)
				slot := driver.Slot(prefix)
				on := slot * int64(primaries) / driver.Slots
				counts[on]++
				plan = append(plan, plannedShard{shard.Name, prefix, slot, on + 1})
			}
			return showAll(cmd, plan, func(t *table) {
				t.row("SHARD", "PREFIX", "SLOT", "PRIMARY")
				for _, s := range plan {
					t.row(s.Name, s.Prefix, s.Slot, s.Primary)
				}
				t.row(fmt.Sprintf("shards on each primary: %s", strings.Trim(fmt.Sprint(counts), "[]")))
			})
		},
	})
	cmd.Flags().IntVarP(&n, "shards", "n", 12, "the `NUMBER` of shards")
	cmd.Flags().IntVar(&primaries, "primaries", 3, "the `NUMBER` of primaries of the Cluster")
	return cmd
}
