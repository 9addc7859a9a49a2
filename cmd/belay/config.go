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
	key      string // in the file: Sidekiq's key, if it has one
	flag     string // empty for a setting of the file alone
	variable string // empty for a setting that the environment cannot give
	kind     string // of the flag's value
	list     bool   // the variable holds several values, separated by spaces
}

// settings are all settings, in the order in which they are printed: the flags of all workers, and a few of
// belay work alone.
var settings = func() (all []setting) {
	sidekiq := map[string]string{"queue": "queues", "label": "labels", "shutdown-timeout": "timeout"}
	for _, f := range new(belay.MainConfig).Flags() {
		key := cmp.Or(sidekiq[f.Name], strings.ReplaceAll(f.Name, "-", "_"))
		all = append(all, setting{key, f.Name, f.Variable, f.Type(), f.List})
	}
	return append(all, setting{"client", "client", "BELAY_CLIENT", "string", false},
		setting{"logfile", "logfile", "BELAY_LOGFILE", "string", false},
		setting{key: "capsules"}, setting{key: "exec", flag: "exec"})
}()

func settingByKey(key string) (setting, bool) {
	at := slices.IndexFunc(settings, func(s setting) bool { return s.key == key })
	if at < 0 {
		return setting{}, false
	}
	return settings[at], true
}

func settingKeys() []string {
	keys := make([]string, len(settings))
	for i, s := range settings {
		keys[i] = s.key
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
	return fmt.Sprintf(configHelp, wrapWords(variables), strings.TrimPrefix(wrapWords(settingKeys()), "  "))
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
	sources           map[string]string // by key: "--queue", "BELAY_QUEUES", "belay.yml:3"
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
	path := cmp.Or(c.path, os.Getenv("BELAY_CONFIG"))
	var file map[string]fileValue
	var errs []error
	if path != "" {
		given := cmp.Or(c.environment, os.Getenv("BELAY_ENVIRONMENT"))
		environment := cmp.Or(given, os.Getenv("APP_ENV"), os.Getenv("RAILS_ENV"), os.Getenv("RACK_ENV"), "development")
		var err error
		var sections []string
		file, sections, c.notes, err = readConfigFile(path, environment)
		errs = append(errs, err)
		// Rails' variables and the default are not only for this program, so the file need not have a section
		// of that name.
		if given != "" && len(sections) > 0 && !slices.Contains(sections, given) {
			c.note("%s has no section %q, only %s: settings outside them are used", path, given, strings.Join(sections, ", "))
		}
		c.noteExposed(path, file["redis"])
	}
	for _, s := range settings {
		given, inFile := file[s.key]
		if inFile {
			c.sources[s.key] = fmt.Sprintf("%s:%d", path, given.line)
		}
		if s.flag == "" {
			server.Capsules = given.capsules
			continue
		}
		flag := flags.Lookup(s.flag)
		variable, words := s.fromEnvironment()
		switch {
		case flag.Changed:
			c.sources[s.key] = "--" + s.flag
			continue
		case len(words) > 0:
			c.sources[s.key] = variable
		case s.key == "queues":
			if inFile {
				server.Queues = given.queues
			}
			continue
		case inFile:
			words = given.words
		}
		for _, word := range words {
			errs = append(errs, flag.Value.Set(word))
		}
	}
	return errors.Join(errs...)
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
	case s.list:
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
