package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belayq/belay/inspect"
)

// completeTimeout limits how long completion reads names: a person has just pressed a key.
const completeTimeout = time.Second

// enumerations lists the values of flags that have only a few, for completion.
var enumerations = map[string][]string{
	"client": {"go-redis", "rueidis"}, "log-level": {"debug", "info", "warn", "error"}, "log-format": {"auto", "json", "console"},
	"retry-formula": {"8.x", "6.x", "4.2.3"}, "timestamps": {"seconds", "milliseconds"},
	"unique": {"until_executing", "until_executed", "until_expired"}, "retry": {"true", "false"},
	"acl": {"worker", "producer", "operator", "dashboard"},
}

// fileFlags are the flags whose values name files. The shell offers files for these only.
var fileFlags = []string{"file", "then", "config", "logfile", "auth", "viewer", "exec"}

// completeAll registers completions for the flags and arguments of all commands. It turns completion off for
// the others, or the shell would offer files where a jid, a class or a name belongs.
func completeAll(at *redisFlags, cmd *cobra.Command) {
	for name, values := range enumerations {
		if flag := cmd.LocalNonPersistentFlags().Lookup(name); flag != nil || name == "client" && !cmd.HasParent() {
			_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	for name, read := range flagNames {
		if cmd.LocalNonPersistentFlags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, at.completeNames(func(int) readNames { return read }))
		}
	}
	if read := namesIn(cmd.Use); read != nil {
		cmd.ValidArgsFunction = at.completeNames(read)
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

// readNames reads the names of one kind from Redis.
type readNames func(*inspect.Inspector, context.Context) ([]string, error)

// argumentNames says which words in the Use of a command stand for names in Redis.
var argumentNames = map[string]readNames{
	"QUEUE": (*inspect.Inspector).QueueNames, "FROM": (*inspect.Inspector).QueueNames, "TO": (*inspect.Inspector).QueueNames,
	"LIMIT": limitNames, "NAME": periodicNames, "CLASS": classNames, "IDENTITY": processNames,
}

// flagNames says the same of flags.
var flagNames = map[string]readNames{
	"queue": (*inspect.Inspector).QueueNames, "from": (*inspect.Inspector).QueueNames, "to": (*inspect.Inspector).QueueNames,
	"class": classNames, "mask": classNames,
}

// namesIn returns which names an argument of a command is one of, by its position; nil for a command without
// such arguments. The last argument may be given several times.
func namesIn(use string) func(position int) readNames {
	words := strings.Fields(use)[1:]
	if len(words) == 0 {
		return nil
	}
	return func(position int) readNames {
		last := len(words) - 1
		if position > last && strings.HasSuffix(words[last], "...") {
			position = last
		}
		if position > last || position == 0 && strings.HasPrefix(use, "add ") { // the name of a new one
			return nil
		}
		return argumentNames[strings.Trim(words[position], "[].")]
	}
}

func periodicNames(i *inspect.Inspector, ctx context.Context) (names []string, err error) {
	all, err := i.Periodic(ctx)
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names, err
}

func limitNames(i *inspect.Inspector, ctx context.Context) (names []string, err error) {
	all, err := i.Limits(ctx)
	for _, l := range all.Limits {
		names = append(names, l.Name)
	}
	return names, err
}

// classNames returns the classes whose jobs have run in the last days, and those that have a rule.
func classNames(i *inspect.Inspector, ctx context.Context) (names []string, err error) {
	list, err := i.Classes(ctx, inspect.ClassWindow{Last: inspect.MaxWindow})
	for _, class := range list.Classes {
		names = append(names, class.Name)
	}
	rules, _, rulesErr := i.ClassRules(ctx)
	for _, rule := range rules {
		names = append(names, rule.Class)
	}
	slices.Sort(names)
	return slices.Compact(names), cmp.Or(err, rulesErr)
}

func processNames(i *inspect.Inspector, ctx context.Context) (names []string, err error) {
	status, err := i.Status(ctx)
	for _, p := range status.Processes {
		names = append(names, p.Identity)
	}
	return names, err
}

// maxOffered is how many bytes a name may have that completion offers: those of a queue or a class.
const maxOffered = 255

// isOffered reports whether a name from Redis may be completed. Any program that can write to Redis can choose
// a name, and the scripts of shells evaluate the line that they complete: in bash, a name with $(...) in it
// runs that command as soon as the key is pressed again. So a name is offered only if no character of it has a
// meaning in a shell, and if it cannot be taken for a flag.
func isOffered(name string) bool {
	if name == "" || len(name) > maxOffered || strings.ContainsRune("-=", rune(name[0])) {
		return false
	}
	return !strings.ContainsFunc(name, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_-.:@/+,=", c)
	})
}

// completeNames completes arguments, or a flag's value, with names from Redis. Without Redis it completes
// nothing and prints no error, which the shell would show in the middle of a line.
func (f *redisFlags) completeNames(of func(position int) readNames) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) (names []string, directive cobra.ShellCompDirective) {
		read := of(len(args))
		if read == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		_ = withInspector(f, func(_ *cobra.Command, i *inspect.Inspector, _ []string) error {
			ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
			defer cancel()
			all, err := read(i, ctx)
			for _, name := range all {
				if isOffered(name) && strings.HasPrefix(name, typed) && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
			return err
		})(nil, nil)
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeList completes the last name of a list with commas.
func completeList(names []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) (lists []string, _ cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		for _, name := range names {
			if list := before + name; strings.HasPrefix(list, typed) {
				lists = append(lists, list)
			}
		}
		return lists, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// suggestion returns "; did you mean ...?" with the names that are most similar to the unknown one, or nothing.
func suggestion(name string, names []string) string {
	like := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, known := range names {
		if isOffered(known) { // a user may paste it into a shell
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
		printErr(cmd, note)
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
