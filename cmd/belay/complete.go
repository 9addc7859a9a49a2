package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

// completeTimeout is how long a shell waits for the names of queues: a person has just pressed a key.
const completeTimeout = time.Second

// enumerations are the flags with few values, for completion.
var enumerations = map[string][]string{
	"client": {"go-redis", "rueidis"}, "log-level": {"debug", "info", "warn", "error"}, "log-format": {"json", "console"},
	"retry-formula": {"8.x", "6.x", "4.2.3"}, "timestamps": {"seconds", "milliseconds"},
	"unique": {"until_executing", "until_executed"}, "retry": {"true", "false"},
}

// completeAll tells a shell what may stand for flags and arguments, of all commands.
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
	for _, sub := range cmd.Commands() {
		completeAll(at, sub)
	}
}

// completeQueues completes the first arguments, or a flag's value, by the names of queues. Without Redis there are none, and
// nothing is said: the shell would show it in the middle of a line.
func (f *redisFlags) completeQueues(arguments int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) (names []string, directive cobra.ShellCompDirective) {
		if arguments > 0 && len(args) >= arguments {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		_ = withInspector(f, func(i *inspect.Inspector) error {
			ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
			defer cancel()
			all, err := i.QueueNames(ctx)
			for _, name := range all {
				if isPlain(name) && strings.HasPrefix(name, typed) {
					names = append(names, name)
				}
			}
			return err
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// meant is the end of a sentence about a name that does not exist: what is like it, if there is something.
func meant(name string, names []string) string {
	like := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, known := range names {
		if isPlain(known) && !strings.Contains(known, " ") { // a command has no others
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

// hintQueue says on standard error that a queue does not exist, and which one is like it. It says nothing where Redis does not.
func hintQueue(cmd *cobra.Command, i *inspect.Inspector, queue string) {
	ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
	defer cancel()
	if exists, err := i.QueueExists(ctx, queue); err != nil || exists {
		return
	}
	if size, err := i.QueueSize(ctx, queue); err != nil || size > 0 { // Ruby's "clear" takes the name out of the list
		return
	}
	names, _ := i.QueueNames(ctx)
	cmd.PrintErrf("no job has ever been pushed to queue %s%s\n", plain(queue), meant(queue, names))
}
