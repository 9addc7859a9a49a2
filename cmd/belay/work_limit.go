package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/belayq/belay"
	"github.com/belayq/belay/limit"
)

// A limitSpec is a value of --limit: the limit of a class that a program runs.
type limitSpec struct {
	class string
	limit belay.Limit
	key   int // position of the argument whose value is the key; -1 for one limit for the class
}

// parseLimits reads the values of --limit. It returns all mistakes at once.
func parseLimits(specs []string, programs []program) (map[string]limitSpec, error) {
	limits, sizes := make(map[string]limitSpec), make(map[string]*belay.Limit)
	var errs []error
	for _, text := range specs {
		spec, err := parseLimit(text)
		_, twice := limits[spec.class]
		switch {
		case err != nil:
		case twice:
			err = errors.New("the class has a limit already")
		case sizes[spec.limit.Name] != nil && *sizes[spec.limit.Name] != spec.limit:
			err = fmt.Errorf("the limit %s has two sizes; give it the same one for both classes", spec.limit.Name)
		case !slices.ContainsFunc(programs, func(p program) bool { return p.class == spec.class }):
			err = fmt.Errorf("no --exec names the class %s", spec.class)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--limit %s: %w", text, err))
			continue
		}
		limits[spec.class], sizes[spec.limit.Name] = spec, &spec.limit
	}
	return limits, errors.Join(errs...)
}

// parseLimit reads CLASS=NAME[,concurrency=N][,window=N/TIME][,leaky=N/TIME][,key=ARG].
func parseLimit(text string) (limitSpec, error) {
	class, rest, ok := strings.Cut(text, "=")
	if !ok || class == "" {
		return limitSpec{}, errors.New("it must be CLASS=NAME, and a size such as concurrency=5 or window=100/1m")
	}
	words := strings.Split(rest, ",")
	spec := limitSpec{class: class, limit: belay.Limit{Name: words[0]}, key: -1}
	var errs []error
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		var err error
		switch name {
		case "concurrency":
			spec.limit.Concurrency, err = positive(value)
		case "window", "leaky":
			if !spec.limit.Rate.None() {
				err = errors.New("it has two rates; give one")
				break
			}
			if name == "leaky" {
				value = "leaky:" + value
			}
			spec.limit.Rate, err = limit.ParseRate(value)
		case "key":
			if spec.key, err = strconv.Atoi(value); err != nil || spec.key < 0 {
				err = fmt.Errorf("key %q: it must be the position of an argument, 0 for the first", value)
			}
		default:
			err = fmt.Errorf("%q: it must be concurrency, window, leaky or key", word)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return spec, err
	}
	return spec, spec.limit.Check()
}

func positive(value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q: it must be a number from 1 on", value)
	}
	return n, nil
}

// option returns the limit as an option of the class' handler.
func (s limitSpec) option() belay.DefineOption {
	if s.key < 0 {
		return belay.LimitedTo(s.limit)
	}
	return belay.Limited(s.limit, s.keyOf)
}

// keyOf returns the value of the argument, without quotes if it is a string; "" if the job has no such
// argument.
func (s limitSpec) keyOf(j *belay.Job) string {
	args := j.Args()
	if s.key >= len(args) {
		return ""
	}
	var text string
	if json.Unmarshal([]byte(args[s.key]), &text) == nil {
		return text
	}
	return args[s.key]
}
