package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belayq/belay/inspect"
)

// completeTimeout limits how long completion reads queue names: a person has just pressed a key.
const completeTimeout = time.Second

// enumerations lists the values of flags that have only a few, for completion.
var enumerations = map[string][]string{
	"client": {"go-redis", "rueidis"}, "log-level": {"debug", "info", "warn", "error"}, "log-format": {"auto", "json", "console"},
	"retry-formula": {"8.x", "6.x", "4.2.3"}, "timestamps": {"seconds", "milliseconds"},
	"unique": {"until_executing", "until_executed"}, "retry": {"true", "false"},
}

// fileFlags are the flags whose values name files. The shell offers files for these only.
var fileFlags = []string{"file", "config", "logfile", "auth", "viewer", "exec"}

// completeAll registers completions for the flags and arguments of all commands. It turns completion off for
// the others, or the shell would offer files where a jid, a class or a name belongs.
func completeAll(at *redisFlags, cmd *cobra.Command) {
	for name, values := range enumerations {
		if flag := cmd.LocalNonPersistentFlags().Lookup(name); flag != nil || name == "client" && !cmd.HasParent() {
			_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	if cmd.LocalNonPersistentFlags().Lookup("queue") != nil {
		_ = cmd.RegisterFlagCompletionFunc("queue", at.completeQueues(0))
	}
	if words := strings.Fields(cmd.Use); cmd.HasParent() && cmd.Parent().Name() == "queues" && len(words) > 1 {
		cmd.ValidArgsFunction = at.completeQueues(map[string]int{"QUEUE": 1, "FROM": 2, "QUEUE...": 1000}[words[1]])
	}
	if words := strings.Fields(cmd.Use); cmd.HasParent() && cmd.Parent().Name() == "periodic" && len(words) > 1 && words[0] != "add" {
		cmd.ValidArgsFunction = at.completeNames(map[string]int{"NAME": 1, "NAME...": 1000}[words[1]], periodicNames)
	}
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if _, own := cmd.GetFlagCompletionFunc(flag.Name); !own && !slices.Contains(fileFlags, flag.Name) {
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, cobra.NoFileCompletions)
		}
	})
	for _, sub := range cmd.Commands() {
		completeAll(at, sub)
	}
}

// completeQueues completes the first arguments, or a flag's value, with queue names.
func (f *redisFlags) completeQueues(arguments int) cobra.CompletionFunc {
	return f.completeNames(arguments, (*inspect.Inspector).QueueNames)
}

func periodicNames(i *inspect.Inspector, ctx context.Context) (names []string, err error) {
	all, err := i.Periodic(ctx)
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names, err
}

// completeNames completes the first arguments, or a flag's value, with names from Redis. Without Redis it
// completes nothing and prints no error, which the shell would show in the middle of a line.
func (f *redisFlags) completeNames(arguments int, read func(*inspect.Inspector, context.Context) ([]string, error)) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) (names []string, directive cobra.ShellCompDirective) {
		if arguments > 0 && len(args) >= arguments {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		_ = withInspector(f, func(_ *cobra.Command, i *inspect.Inspector, _ []string) error {
			ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
			defer cancel()
			all, err := read(i, ctx)
			for _, name := range all {
				if isPlain(name) && strings.HasPrefix(name, typed) {
					names = append(names, name)
				}
			}
			return err
		})(nil, nil)
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// suggestion returns "; did you mean ...?" with the names that are most similar to the unknown one, or nothing.
func suggestion(name string, names []string) string {
	like := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, known := range names {
		if isPlain(known) && !strings.Contains(known, " ") { // completion offers plain names only
			like.AddCommand(&cobra.Command{Use: known, Run: func(*cobra.Command, []string) {}})
		}
	}
	return didYouMean(like.SuggestionsFor(name))
}

func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(names[:min(len(names), 3)], " or ") + "?"
}

// hintQueue reports on standard error that a queue does not exist, and similar names. It prints nothing if
// Redis does not answer.
func hintQueue(cmd *cobra.Command, i *inspect.Inspector, queue string) {
	ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
	defer cancel()
	size, err := i.Size(ctx, inspect.Waiting(queue)) // Ruby's "clear" removes the name of a queue with jobs from the list
	if note, _ := neverPushed(ctx, i, queue, "queue "+plain(queue)); note != "" && err == nil && size == 0 {
		cmd.PrintErrln(note)
	}
}

// neverPushed returns a note if no job was ever pushed to a queue, with similar names.
func neverPushed(ctx context.Context, i *inspect.Inspector, queue, called string) (note string, err error) {
	exists, err := i.QueueExists(ctx, queue)
	if err != nil || exists {
		return "", err
	}
	names, _ := i.QueueNames(ctx)
	return "no job has ever been pushed to " + called + suggestion(queue, names), nil
}
