package flagset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
)

// A Flag is one setting of a worker program that may be given on the command line and in the environment. It
// implements flag.Value, and the Value of package pflag.
type Flag struct {
	// Name is the flag's name, and Short its one-letter name, if it has one.
	Name, Short string
	// Variable is the environment variable. The variable of a List holds several values, separated by spaces.
	Variable string
	// Usage describes the flag. The name of its value is in backquotes if it has one.
	Usage string
	// List reports whether the flag may be given several times. The first value replaces those of the config.
	List bool
	// Given reports whether Set was called, as it is for a flag on the command line.
	Given bool

	kind    string
	value   func() string
	set     func(value string) error
	problem error
}

// String returns the value, in the form that Set reads; empty if it is a default that depends on other
// settings.
func (f *Flag) String() string {
	if f.value == nil { // package flag asks a zero Flag
		return ""
	}
	return f.value()
}

// Set reads a value. It returns an error if the value cannot be read, and describes a valid one. Check finds
// values that can be read but are invalid.
func (f *Flag) Set(value string) error {
	if err := f.set(value); err != nil {
		return err
	}
	f.Given = true
	return nil
}

// Type returns the kind of the value: "int", "duration", "bool", "string" or "strings".
func (f *Flag) Type() string { return f.kind }

// Check returns an error if the value is invalid. Set does not return it, so that a program can report all
// mistakes at once.
func (f *Flag) Check() error { return f.problem }

// Zero is what 0 means as a flag's value. In a config it stands for the default.
type Zero int

const (
	// ZeroIsInvalid makes 0 an error.
	ZeroIsInvalid Zero = iota
	// ZeroIsZero is for a flag whose default is 0.
	ZeroIsZero
	// ZeroIsNone writes 0 into the config as -1, which there means none.
	ZeroIsNone
)

func newFlag(name, kind, usage string) *Flag {
	return &Flag{
		Name: name, Variable: "BELAY_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")), Usage: usage, kind: kind,
	}
}

// WithShort adds a one-letter name.
func (f *Flag) WithShort(name string) *Flag {
	f.Short = name
	return f
}

// WithVariable replaces the environment variable that the name implies.
func (f *Flag) WithVariable(name string) *Flag {
	f.Variable = name
	return f
}

// Text returns a flag of a string.
func Text(name, usage string, to *string) *Flag {
	f := newFlag(name, "string", usage)
	f.value = func() string { return *to }
	f.set = func(value string) error { *to = value; return nil }
	return f
}

// URL returns a flag of a Redis URL. Given several times, it may be a list of shards: see driver.AddURL.
func URL(name, usage string, to *string) *Flag {
	f := Text(name, usage, to)
	f.set = func(value string) error {
		if f.Given {
			value = driver.AddURL(*to, value)
		}
		*to = value
		return nil
	}
	return f
}

// Switch returns a flag that is true or false. Its name alone means true.
func Switch(name, usage string, to *bool) *Flag {
	f := newFlag(name, kindBool, usage)
	f.value = func() string { return strconv.FormatBool(*to) }
	f.set = func(value string) error {
		on, err := strconv.ParseBool(value)
		if err != nil {
			return errors.New("it must be true or false")
		}
		*to = on
		return nil
	}
	return f
}

// kindBool is the kind that package flag and package pflag know.
const kindBool = "bool"

// IsBoolFlag reports whether the flag's name alone is a value; package flag asks for it.
func (f *Flag) IsBoolFlag() bool { return f.kind == kindBool }

// Choice returns a flag of few values; byDefault is the text of T's zero value.
func Choice[T comparable](name, usage string, to *T, byDefault string, values map[string]T, allowed string) *Flag {
	f := newFlag(name, "string", usage)
	f.value = func() string {
		for text, value := range values {
			if value == *to {
				return text
			}
		}
		return byDefault
	}
	f.set = func(text string) error {
		value, ok := values[text]
		if !ok {
			return errors.New("it is " + allowed)
		}
		*to = value
		return nil
	}
	return f
}

// Scalar returns a flag of a number or a duration.
func Scalar[T int | time.Duration](name, usage string, to *T, byDefault T, zeroIs Zero) *Flag {
	_, isDuration := any(byDefault).(time.Duration)
	f := newFlag(name, map[bool]string{true: "duration", false: "int"}[isDuration], usage)
	f.value = func() string {
		switch value := cmp.Or(*to, byDefault); {
		case value == 0:
			return ""
		case value < 0 && zeroIs == ZeroIsNone:
			return fmt.Sprint(T(0))
		default:
			return fmt.Sprint(value)
		}
	}
	f.set = func(text string) error {
		n, err := strconv.Atoi(text)
		if isDuration {
			var d time.Duration
			d, err = time.ParseDuration(text)
			n = int(d)
		}
		switch f.problem = nil; {
		case err != nil && isDuration:
			return errors.New("it must be a duration, such as 1500ms or 25s")
		case err != nil:
			return errors.New("it must be a whole number")
		case n == 0 && zeroIs == ZeroIsInvalid:
			f.problem = fmt.Errorf("--%s 0: it must be above 0; leave it out for the default", name)
		case n < 0 && zeroIs == ZeroIsNone:
			f.problem = fmt.Errorf("--%s %v: it must not be negative", name, text)
		case n == 0 && zeroIs == ZeroIsNone:
			n = -1
		}
		*to = T(n)
		return nil
	}
	return f
}

// OrOff makes the duration of a flag, at to, -1 for the word off.
func OrOff(f *Flag, to *time.Duration) *Flag {
	value, set := f.value, f.set
	f.value = func() string {
		if *to < 0 {
			return off
		}
		return value()
	}
	f.set = func(text string) error {
		if text != off {
			err := set(text)
			if *to < 0 {
				f.problem = fmt.Errorf("--%s %v: it must be above 0, or off", f.Name, text)
			}
			return err
		}
		f.problem, *to = nil, -1
		return nil
	}
	return f
}

const off = "off"

// List returns a flag that may be given several times. Its variable is plural: BELAY_QUEUE is what `belay
// work` tells the programs that it runs.
func List(name, usage string, set func(all []string) error, value func() []string) *Flag {
	f := newFlag(name, "strings", usage)
	f.List = true
	f.Variable += "S"
	var all []string
	f.value = func() string { return strings.Join(value(), " ") }
	f.set = func(text string) error {
		with := append(slices.Clip(all), text)
		err := set(with)
		if err == nil {
			all = with
		}
		return err
	}
	return f
}

// Queues returns a flag of queues with optional weights. The usage names its value NAME[,WEIGHT].
func Queues(name, usage string, to *[]fetch.Queue) *Flag {
	return List(name, usage, func(specs []string) error {
		queues, err := parseQueues(specs)
		if err == nil {
			*to = queues
		}
		return err
	}, func() (specs []string) {
		for _, queue := range *to {
			spec := queue.Name
			if queue.Weight > 0 {
				spec += "," + strconv.Itoa(queue.Weight)
			}
			specs = append(specs, spec)
		}
		return specs
	})
}

// parseQueues reads the values of Queues. White space in a name and a comma that is followed by no weight
// are errors: the user probably meant several queues, and the worker would wait for ever on one queue of that
// name.
func parseQueues(specs []string) ([]fetch.Queue, error) {
	var queues []fetch.Queue
	for _, spec := range specs {
		name, weight, weighted := strings.Cut(spec, ",")
		if err := job.CheckQueue(name); err != nil {
			return nil, err
		}
		if words := strings.Fields(spec); !slices.Equal(words, []string{spec}) {
			return nil, fmt.Errorf("a name with white space; for several queues give each its own: -q %s (a queue with exactly this name is possible in Go and in a configuration file)",
				strings.Join(words, " -q "))
		}
		queue := fetch.Queue{Name: name}
		if weighted {
			var err error
			if queue.Weight, err = strconv.Atoi(weight); err != nil || queue.Weight < 1 {
				return nil, errors.New("it must be NAME or NAME,WEIGHT, with a weight of 1 or more; for more queues give -q again")
			}
		}
		queues = append(queues, queue)
	}
	return queues, nil
}
