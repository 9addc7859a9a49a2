package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

// A setCommand is a command about one of the three sorted sets.
type setCommand struct {
	name, short, long string
	home              inspect.Home
	actions           []inspect.Action
}

func setCommands() []setCommand {
	return []setCommand{
		{"retries", "Show and act on failed jobs that will run again", `Shows the failed jobs that will run again, the next one first, with what they failed of.`,
			inspect.Retries(), []inspect.Action{inspect.Retry, inspect.Kill, inspect.Delete}},
		{"scheduled", "Show and act on jobs that wait for their time", `Shows the jobs that wait for their time, the next one first.`,
			inspect.Scheduled(), []inspect.Action{inspect.Retry, inspect.Kill, inspect.Delete}},
		{"dead", "Show and act on jobs that will not run again", `Shows the jobs that will not run again by themselves, those that died last first, with what they died of.`,
			inspect.Dead(), []inspect.Action{inspect.Retry, inspect.Delete}},
	}
}

// newSet is a command that lists a set, with the commands below it that act on it.
func newSet(at *redisFlags, s setCommand) *cobra.Command {
	var flags listFlags
	cmd := &cobra.Command{
		Use:   s.name,
		Short: s.short,
		Long:  s.long + "\n\n" + listHelp,
		Example: fmt.Sprintf(`  belay %[1]s
  belay %[1]s --class WelcomeEmail --limit 100
  belay %[1]s --json --limit 0 | jq -r 'select(.error_class == "Timeout") | .id' | xargs belay %[1]s delete
  belay %[1]s find 217d2cffc30f4a168b3a76d9`, s.name),
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withInspector(at, func(i *inspect.Inspector) error { return flags.list(cmd, i, s.home) })
		},
	}
	flags.register(cmd.Flags())
	cmd.AddCommand(newFind(at, s.name, "", func([]string) ([]inspect.Home, []string) { return []inspect.Home{s.home}, nil }))
	for _, action := range s.actions {
		cmd.AddCommand(newAct(at, s, action))
	}
	cmd.AddCommand(newClear(at, s))
	return cmd
}

// actHelp says what each action does.
var actHelp = map[inspect.Action]string{
	inspect.Retry: `Sends jobs to the backs of their queues, now. They have one more run than they had left, and how often they crashed is
forgotten, so a job that died because it killed its workers runs like any other. Unreadable entries are refused, and so are
jobs that died because of their size and still exceed --payload-limit: they would die again. A dead unique job is also
refused while another job holds its lock; the answer names that job.`,
	inspect.Kill: `Sends jobs to the dead set as they are: they will not run again by themselves. The hooks of programs hear nothing of it. Unique
jobs free their locks; one that promised a duplicate one more run (see belay locks: dirty) is followed by that run.`,
	inspect.Delete: `Deletes jobs for good. What cannot be read has an ID of its own (unreadable-...), which the list shows. Unique jobs free their
locks; one that promised a duplicate one more run (see belay locks: dirty) is followed by that run.`,
}

func newAct(at *redisFlags, s setCommand, action inspect.Action) *cobra.Command {
	flags := actFlags{}
	example := fmt.Sprintf("  belay %[1]s %[2]s 217d2cffc30f4a168b3a76d9\n  belay %[1]s %[2]s --class WelcomeEmail\n  belay %[1]s %[2]s --all", s.name, action)
	if action != inspect.Retry {
		example += " --yes"
	}
	cmd := &cobra.Command{
		Use:   string(action) + " [JID]...",
		Short: map[inspect.Action]string{inspect.Retry: "Run jobs now", inspect.Kill: "Bury jobs", inspect.Delete: "Delete jobs"}[action],
		Long: actHelp[action] + `

It works page by page and says how far it has come every two seconds. It may be ended at any moment, kill -9 included, and said
again: each job is moved in one step. --all and --class mean what was there when it began.

` + actStatus,
		Example: example,
		Args:    func(_ *cobra.Command, args []string) error { return flags.choose(args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withInspector(at, func(i *inspect.Inspector) error {
				return operation{cmd: cmd, inspector: i, action: action, flags: flags}.in(s.home)
			})
		},
	}
	flags.register(cmd.Flags(), action)
	return cmd
}

func newClear(at *redisFlags, s setCommand) *cobra.Command {
	flags := actFlags{selection: inspect.Selection{All: true}}
	cmd := &cobra.Command{
		Use:     "clear",
		Short:   "Delete all of them",
		Long:    "Deletes all of them for good, as delete --all does.\n\n" + actStatus,
		Example: fmt.Sprintf("  belay %s clear --yes", s.name),
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withInspector(at, func(i *inspect.Inspector) error {
				return operation{cmd: cmd, inspector: i, action: inspect.Delete, flags: flags}.in(s.home)
			})
		},
	}
	cmd.Flags().BoolVarP(&flags.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&flags.asJSON, "json", false, "print what came of it as one JSON object")
	return cmd
}

// withInspector does something with Redis.
func withInspector(at *redisFlags, do func(*inspect.Inspector) error) error {
	redis, err := at.open()
	if err != nil {
		return err
	}
	defer func() { _ = redis.Close() }()
	return do(inspect.New(redis, at.prefix))
}

// noWords refuses a word where a command below was meant.
func noWords(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	word := hideURLs(args[0])
	if cmd.HasParent() {
		word = cmd.CommandPath() + " " + word
	}
	cmd.SuggestionsMinimumDistance = 2 // of letters; cobra has the number, and uses it in other places only
	return usage("there is no command %q%s", word, didYouMean(cmd.SuggestionsFor(args[0])))
}
