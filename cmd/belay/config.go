package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/pflag"

	"github.com/belayq/belay"
)

// A setting may be given by a flag, in the environment and in a configuration file. A flag overrides the
// environment, which overrides the file.
type setting struct {
	key      string   // in the file: Sidekiq's key, if it has one
	others   []string // Sidekiq's other keys for it; of several in a file the first counts, as in Sidekiq
	flag     string   // empty for a setting of the file alone
	variable string   // empty for a setting that the environment cannot give
	kind     string   // of its value in the file: int, duration, bool, string, strings, queues, capsules or programs
}

// settings are all settings, in the order in which they are printed: the flags of all workers, and a few of
// belay work alone.
var settings = func() (all []setting) {
	for _, f := range new(belay.MainConfig).Flags() {
		s := setting{key: strings.ReplaceAll(f.Name, "-", "_"), flag: f.Name, variable: f.Variable, kind: f.Type()}
		switch f.Name {
		case "queue":
			s.key, s.kind = "queues", "queues"
		case "label":
			s.key = "labels"
		case "shutdown-timeout":
			s.key = "timeout"
		case "poll": // Sidekiq's processes poll each; Belay has one poller for the fleet
			s.others = []string{"poll_interval_average", "average_scheduled_poll_interval"}
		}
		all = append(all, s)
	}
	return append(all, setting{key: "client", flag: "client", variable: "BELAY_CLIENT", kind: "string"},
		setting{key: "logfile", flag: "logfile", variable: "BELAY_LOGFILE", kind: "string"},
		setting{key: "capsules", kind: "capsules"}, setting{key: "exec", flag: "exec", kind: "programs"})
}()

// settingOf returns the setting of a key in a file.
func settingOf(key string) (s setting, known bool) {
	for _, s := range settings {
		if s.key == key || slices.Contains(s.others, key) {
			return s, true
		}
	}
	return setting{}, false
}

func settingKeys() (keys []string) {
	for _, s := range settings {
		keys = append(keys, s.key)
	}
	return keys
}

const configHelp = `

A flag overrides the environment, which overrides the file of --config, which overrides the default. The variables are
%s,
with spaces between several queues or labels. BELAY_CONFIG names the file. REDIS_URL is read if BELAY_REDIS_URL is not set.

The file is YAML with the keys of Sidekiq's config/sidekiq.yml, with or without colons before them:
%s.
A number for a duration means seconds. All of Sidekiq's forms of queues are read, and its capsules: sets of queues with a
concurrency of their own. Sidekiq's other settings are ignored, with one warning. ERB may look up environment variables:
<%%= ENV["NAME"] || value %%>, ENV.fetch("NAME", value). A key that is not a setting, with settings below it, is the
section of an environment. The section that --environment, BELAY_ENVIRONMENT, APP_ENV, RAILS_ENV or RACK_ENV names (the
first that is set; default "development") overrides the rest. --print-config prints the result.

  concurrency: 20
  queues:
    - [critical, 3]
    - default
  capsules:
    unsafe: {concurrency: 1, queues: [thumbnails]}
  exec:
    WelcomeEmail: ./send-welcome
    "*": ./any-other
  production:
    concurrency: 50`

// describeConfig returns the help on the environment and the file.
func describeConfig() string {
	var variables []string
	for _, s := range settings {
		if s.variable != "" {
			variables = append(variables, s.variable)
		}
	}
	return fmt.Sprintf(configHelp, wrapWords(variables), wrapWords(settingKeys()))
}

// wrapWords breaks a list into indented lines of a help text.
func wrapWords(words []string) string {
	const width = 116
	return "  " + strings.ReplaceAll(ansi.Wordwrap(strings.Join(words, ", "), width-2, ""), "\n", "\n  ")
}

// A config records where the settings of one command line come from.
type config struct {
	path, environment string
	print             bool
	sources           map[string]string // by key: "--queue", "BELAY_QUEUES", "belay.yml:3"; none for a default
	remark            string            // for the operator; may be empty
	notes             []string          // for the log
}

func (c *config) register(flags *pflag.FlagSet) {
	flags.StringVar(&c.path, "config", "", "read settings from this YAML `FILE`")
	flags.StringVarP(&c.environment, "environment", "e", "", "use the section of the environment `NAME` in the file")
	flags.BoolVar(&c.print, "print-config", false, "print the settings and their sources as YAML, and exit")
}

// settle sets the flags that were not given from the environment and the file. It returns all mistakes in
// these.
func (c *config) settle(flags *pflag.FlagSet, server *belay.ServerConfig) error {
	c.sources = make(map[string]string)
	file, err := c.readFile()
	errs := []error{err}
	for _, s := range settings {
		value, inFile := file[s.key]
		variable, words := s.fromEnvironment()
		flag := flags.Lookup(s.flag)
		switch {
		case flag != nil && flag.Changed:
			c.sources[s.key] = "--" + s.flag
			continue
		case len(words) > 0:
			c.sources[s.key] = variable
		case inFile:
			c.sources[s.key], words = value.source, value.words
			if s.kind == "queues" {
				server.Queues = value.queues
			}
			if s.kind == "capsules" {
				server.Capsules = value.capsules
			}
		}
		for _, word := range words {
			errs = append(errs, flag.Value.Set(word))
		}
	}
	return errors.Join(errs...)
}

// readFile reads the configuration file, if there is one.
func (c *config) readFile() (map[string]fileValue, error) {
	path := cmp.Or(c.path, os.Getenv("BELAY_CONFIG"))
	if path == "" {
		return nil, nil
	}
	given := cmp.Or(c.environment, os.Getenv("BELAY_ENVIRONMENT"))
	environment := cmp.Or(given, os.Getenv("APP_ENV"), os.Getenv("RAILS_ENV"), os.Getenv("RACK_ENV"), "development")
	file, sections, notes, err := readConfigFile(path, environment)
	c.notes = notes
	// Rails' variables and the default are not only for this program, so the file need not have a section of
	// that name.
	if given != "" && len(sections) > 0 && !slices.Contains(sections, given) {
		c.note("%s has no section %q, only %s: settings outside them are used", path, given, strings.Join(sections, ", "))
	}
	c.noteExposed(path, file["redis"])
	return file, err
}

// note appends to the remark for the operator.
func (c *config) note(format string, args ...any) {
	if c.remark != "" {
		c.remark += "; "
	}
	c.remark += fmt.Sprintf(format, args...)
}

// noteExposed warns of a password in a file that every user can read.
func (c *config) noteExposed(path string, redis fileValue) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o004 == 0 || len(redis.words) == 0 {
		return
	}
	if _, secret := hiddenURL(redis.words[0]); secret {
		c.note("every user of this machine can read the password of Redis in %s: chmod 600 it, or use BELAY_REDIS_URL", path)
	}
}

// fromEnvironment returns the words of the flag from the environment.
func (s setting) fromEnvironment() (variable string, words []string) {
	variable = s.variable
	text := os.Getenv(variable)
	if s.key == "redis" && text == "" {
		variable = urlVariables[1]
		text = os.Getenv(variable)
	}
	switch {
	case variable == "" || text == "":
		return "", nil
	case s.kind == "strings", s.kind == "queues":
		return variable, strings.Fields(text)
	}
	return variable, []string{text}
}

// tell replaces flags in an error by the sources of their values.
func (c *config) tell(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, s := range settings {
		source := c.sources[s.key]
		if s.flag == "" || source == "" || strings.HasPrefix(source, "--") {
			continue
		}
		if strings.Contains(source, ":") {
			source += ": " + s.key
		}
		text = strings.ReplaceAll(text, "--"+s.flag+" ", source+" ")
	}
	return errors.New(text)
}
