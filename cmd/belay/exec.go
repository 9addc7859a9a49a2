package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// A program is a command that runs the jobs of one class, or of all classes without a command.
type program struct {
	class string
	path  string   // where its file was found
	words []string // as given, the name first
	// timeout is how long a run may take; 0 for the worker's --job-timeout.
	timeout time.Duration
}

// parsePrograms reads the values of --exec. It returns all mistakes at once.
func parsePrograms(specs []string) ([]program, error) {
	if len(specs) == 0 {
		return nil, errors.New("there are no handlers: give at least one --exec CLASS=COMMAND, such as --exec 'WelcomeEmail=./send-welcome'")
	}
	var programs []program
	var errs []error
	seen := make(map[string]bool)
	for _, spec := range specs {
		p, err := parseProgram(spec)
		if err == nil && seen[p.class] {
			err = fmt.Errorf("--exec %s: the class has a command already", p.class)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		seen[p.class] = true
		programs = append(programs, p)
	}
	return programs, errors.Join(errs...)
}

// timeoutMark stands between a class and its timeout. The timeout is not written behind the command, where it
// could be the end of the program's last argument.
const timeoutMark = ",timeout"

// splitSpec splits a value of --exec, CLASS=COMMAND or CLASS,timeout=DURATION=COMMAND. timeout is empty if none
// is given.
func splitSpec(spec string) (class, timeout, command string, ok bool) {
	class, command, ok = strings.Cut(spec, "=")
	if bare, timed := strings.CutSuffix(class, timeoutMark); ok && timed {
		class = bare
		timeout, command, ok = strings.Cut(command, "=")
	}
	return class, timeout, command, ok
}

// specOf is the opposite of splitSpec.
func specOf(class, timeout, command string) string {
	if timeout != "" {
		class += timeoutMark + "=" + timeout
	}
	return class + "=" + command
}

func parseProgram(spec string) (program, error) {
	class, limit, command, ok := splitSpec(spec)
	if !ok {
		return program{}, fmt.Errorf("--exec %s: it must be CLASS=COMMAND or CLASS,timeout=DURATION=COMMAND", spec)
	}
	var timeout time.Duration
	if limit != "" {
		var err error
		if timeout, err = time.ParseDuration(limit); err != nil || timeout < time.Millisecond {
			return program{}, fmt.Errorf("--exec %s: timeout %q: it must be a duration of at least 1ms, such as 30s", class, limit)
		}
	}
	if class != launcher.AnyClass {
		if err := job.CheckClass(class); err != nil {
			return program{}, fmt.Errorf("--exec %s: %w", spec, err)
		}
	}
	words, err := splitWords(command)
	if err != nil {
		return program{}, fmt.Errorf("--exec %s: %w", class, err)
	}
	if len(words) == 0 {
		return program{}, fmt.Errorf("--exec %s: the command is empty", class)
	}
	path, err := exec.LookPath(words[0])
	if err != nil {
		return program{}, fmt.Errorf("--exec %s: there is no program %q (%w)", class, words[0], errors.Unwrap(err))
	}
	return program{class: class, path: path, words: words, timeout: timeout}, nil
}

// splitWords splits a command as a shell splits a line: spaces separate words, quotes and backslashes keep
// them together. Nothing is expanded: no variables, no globs, no pipes. In double quotes a backslash is
// itself, except before the characters that a shell lets it escape.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	begun, quote := false, byte(0) // a word of "" has begun and has no characters
	for i := 0; i < len(line); i++ {
		c := line[i]
		escapes := quote == 0 || quote == '"' && i+1 < len(line) && strings.IndexByte("\"\\$`", line[i+1]) >= 0
		switch {
		case c == '\\' && escapes:
			if i++; i == len(line) {
				return nil, errors.New("it ends with a lone backslash")
			}
			word.WriteByte(line[i])
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && strings.IndexByte(" \t\n", c) >= 0:
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
			continue
		default:
			word.WriteByte(c)
		}
		begun = true
	}
	switch {
	case quote == '\'':
		return nil, errors.New("a single quote is not closed")
	case quote == '"':
		return nil, errors.New("a double quote is not closed")
	case begun:
		words = append(words, word.String())
	}
	return words, nil
}
