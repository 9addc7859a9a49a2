package flagset

import (
	"errors"
	"flag"
	"fmt"
	"strings"
)

// ReadCommandLine reads the command line and then, for flags that were not given, the environment. A mistake
// on the command line prints one line and a hint instead of package flag's list of all flags. It returns
// flag.ErrHelp after it printed the help, and ErrPrinted for what it has printed.
func ReadCommandLine(set *flag.FlagSet, args []string, lookup func(string) (string, bool), flags []*Flag) error {
	for _, f := range flags {
		set.Var(f, f.Name, f.Usage+" ["+f.Variable+"]")
		if f.Short != "" {
			set.Var(f, f.Short, "short for -"+f.Name)
		}
	}
	usage := set.Usage
	set.Init(set.Name(), flag.ContinueOnError) // flag.CommandLine would exit
	set.Usage = func() {}
	err := set.Parse(args) // which prints its error
	set.Usage = usage
	switch {
	case errors.Is(err, flag.ErrHelp) && usage != nil:
		usage()
		return err
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprintf(set.Output(), "Usage of %s:\n", set.Name())
		set.PrintDefaults()
		return err
	case err == nil && set.NArg() > 0:
		err = fmt.Errorf("unexpected arguments after the flags, from %s on: give several queues as -q a -q b", shown(set.Arg(0)))
		_, _ = fmt.Fprintln(set.Output(), err)
	}
	if err != nil {
		_, _ = fmt.Fprintf(set.Output(), "see: %s -h\n", set.Name())
		return ErrPrinted
	}
	return readEnvironment(lookup, flags)
}

// ErrPrinted is the error for a mistake that was printed already.
var ErrPrinted = errors.New("wrong command line")

// readEnvironment sets the flags that were not given from their variables, and names everything that is wrong
// with any flag.
func readEnvironment(lookup func(string) (string, bool), flags []*Flag) error {
	var errs []error
	for _, f := range flags {
		value, _ := lookup(f.Variable)
		if value != "" && !f.Given {
			values := []string{value}
			if f.List {
				values = strings.Fields(value)
			}
			for _, value := range values {
				if err := f.set(value); err != nil {
					errs = append(errs, fmt.Errorf("%s=%q: %w", f.Variable, value, err))
				}
			}
		}
		errs = append(errs, f.Check())
	}
	return errors.Join(errs...)
}

// shown returns a word of the command line in a form that an error may show: a URL may hold a password.
func shown(word string) string {
	if strings.Contains(word, "://") {
		return "a URL"
	}
	return fmt.Sprintf("%.40q", word)
}
