package main

import (
	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

// newSets makes the commands for the three sorted sets, each with the commands that act on its jobs.
func newSets(at *redisFlags) []*cobra.Command {
	newSet := func(home inspect.Home, short, long string) *cobra.Command {
		l := ofSet(home)
		wanted := `.error_class == "Timeout"`
		if home == inspect.Scheduled() { // its jobs have not failed
			wanted = `.queue == "mail"`
		}
		cmd := newList(at, l, &cobra.Command{
			Use:   l.command,
			Short: short,
			Long:  long,
			Example: l.example("  belay %[1]s\n" +
				"  belay %[1]s --class WelcomeEmail --limit 100\n" +
				"  belay %[1]s --json --limit 0 | jq -r 'select(" + wanted + ") | .id' | xargs belay %[1]s delete\n" +
				"  belay %[1]s find 217d2cffc30f4a168b3a76d9"),
		})
		cmd.AddCommand(newFind(at, l))
		cmd.AddCommand(newActs(at, l, setActs)...)
		cmd.AddCommand(newClear(at, l, &cobra.Command{
			Use: "clear", Short: "Delete all jobs", Args: noArgs,
			Long:    "Deletes all jobs permanently, as delete --all does.",
			Example: l.example("  belay %[1]s clear --yes"),
		}))
		return cmd
	}
	return []*cobra.Command{
		newSet(inspect.Retries(), "List failed jobs that will run again, and act on them",
			"Lists the failed jobs that will run again, the next one first, with their errors."),
		newSet(inspect.Scheduled(), "List scheduled jobs and act on them",
			"Lists the scheduled jobs, the next one first."),
		newSet(inspect.Dead(), "List dead jobs and act on them",
			"Lists the jobs in the dead set, which run again only if an operator retries them. The last to die comes first, with its\nerror."),
	}
}

// setActs are the texts of the commands that act on the jobs of a set.
var setActs = map[inspect.Action]actText{
	inspect.Retry: {"Run jobs now", `Moves jobs to the backs of their queues. They get one run more than they had left, and their crash counts are cleared,
so a job that died because it killed its workers runs like any other. Unreadable entries are refused. Jobs that died
because of their size are refused while they exceed --payload-limit: they would die again. A dead unique job is refused
while another job holds its lock; the answer names that job.`},
	inspect.Reschedule: {"Change the time at which jobs run", `Changes the time at which jobs run to that of --in or --at; a past time means now. Nothing else in the jobs
changes. A unique job keeps its lock until that time, and for its TTL after that.`},
	inspect.Kill: {"Move jobs to the dead set", `Moves jobs to the dead set unchanged: they run again only if an operator retries them. No hook of a program is called.
Unique jobs release their locks. If a lock promised a rerun for a refused duplicate (see belay locks: dirty), that run
follows.`},
	inspect.Delete: {"Delete jobs", `Deletes jobs permanently. An unreadable entry has an ID of its own (unreadable-...), which the list shows. Unique jobs
release their locks. If a lock promised a rerun for a refused duplicate (see belay locks: dirty), that run follows.`},
}
