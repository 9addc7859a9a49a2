package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// A setting may be given by a flag, in the environment and in a configuration file. Defaults come before the file, the file
// before the environment, the environment before flags.
type setting struct {
	key      string // in the file: Sidekiq's word, where it has one
	flag     string // empty for what only the file says
	variable string // empty for what the environment does not say
	read     func(r *fileReader, e entry, value *fileValue) bool
	list     bool // the variable holds several, with spaces between
}

// settings is the table of all of them, in the order in which they are shown.
var settings = []setting{
	{key: "concurrency", flag: "concurrency", read: readNumber},
	{key: "queues", flag: "queue", variable: "BELAY_QUEUES", read: readQueues, list: true}, // BELAY_QUEUE is what programs are told
	{key: "capsules", read: readCapsules},
	{key: "timeout", flag: "shutdown-timeout", read: readDuration},
	{key: "max_retries", flag: "max-retries", read: readNumber},
	{key: "max_interruptions", flag: "max-interruptions", read: readNumber},
	{key: "retry_formula", flag: "retry-formula", read: readText},
	{key: "timestamps", flag: "timestamps", read: readText},
	{key: "payload_limit", flag: "payload-limit", read: readNumber},
	{key: "heartbeat", flag: "heartbeat", read: readDuration},
	{key: "ttl", flag: "ttl", read: readDuration},
	{key: "janitor", flag: "janitor", read: readDuration},
	{key: "poll", flag: "poll", read: readDuration},
	{key: "poll_wait", flag: "poll-wait", read: readDuration},
	{key: "name", flag: "name", read: readText},
	{key: "tag", flag: "tag", read: readText},
	{key: "labels", flag: "label", variable: "BELAY_LABELS", read: readList, list: true},
	{key: "log_level", flag: "log-level", read: readText},
	{key: "log_format", flag: "log-format", read: readText},
	{key: "logfile", flag: "logfile", read: readText},
	{key: "health_addr", flag: "health-addr", read: readText},
	{key: "redis", flag: "redis", variable: urlVariables[0], read: readURL},
	{key: "client", flag: "client", read: readText},
	{key: "prefix", flag: "prefix", read: readText},
	{key: "exec", flag: "exec", read: readPrograms},
}

func init() {
	for i := range settings {
		if s := &settings[i]; s.variable == "" && s.flag != "" && s.flag != "exec" {
			s.variable = "BELAY_" + strings.ToUpper(strings.ReplaceAll(s.flag, "-", "_"))
		}
	}
}

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

Settings come from, each before the ones after it: the command line, the environment, the file that --config names, and
defaults. In the environment they are
%s
with spaces between several queues or labels; BELAY_CONFIG names the file, and REDIS_URL is read where BELAY_REDIS_URL is not set.

The file is YAML in the words of Sidekiq's config/sidekiq.yml, with or without colons before them; what it may say is
%s.
A number for a duration is seconds. Sidekiq's forms of queues are read, and so are its capsules: groups of queues with a
concurrency of their own, each a process to Sidekiq's readers. A key that is no setting and has settings below it is the
section of an environment, laid over the rest when --environment, BELAY_ENVIRONMENT, APP_ENV, RAILS_ENV or RACK_ENV (the
first that says something; otherwise it is "development") is that word. --print-config shows what it all comes to.

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

// describeConfig is the part of the help about all that is no flag.
func describeConfig() string {
	var variables []string
	for _, s := range settings {
		if s.variable != "" {
			variables = append(variables, s.variable)
		}
	}
	return fmt.Sprintf(configHelp, wrapWords(variables), strings.TrimPrefix(wrapWords(settingKeys()), "  "))
}

// wrapWords puts words on lines of a help text.
func wrapWords(words []string) string {
	const width = 116
	lines := []string{" "}
	for i, word := range words {
		if i < len(words)-1 {
			word += ","
		}
		if last := len(lines) - 1; len(lines[last])+len(word) < width {
			lines[last] += " " + word
		} else {
			lines = append(lines, "  "+word)
		}
	}
	return strings.Join(lines, "\n")
}

// A config is where the settings of one command line come from.
type config struct {
	path, environment string
	print             bool
	sources           map[string]string // by key, for people: "default", "--queue", "BELAY_QUEUES", "belay.yml:3"
	capsules          []capsuleSetting
	remark            string   // for the operator; may be empty
	notes             []string // for the log
}

func (c *config) register(flags *pflag.FlagSet) {
	flags.StringVar(&c.path, "config", "", "read settings from this YAML `FILE`")
	flags.StringVarP(&c.environment, "environment", "e", "", "`NAME` of the environment, whose section of the file holds")
	flags.BoolVar(&c.print, "print-config", false, "print the settings and where each comes from, as YAML, and work no further")
}

// settle gives the flags that were not on the command line what the environment and the file say. It names all that is
// wrong with these.
func (c *config) settle(flags *pflag.FlagSet) error {
	c.sources = make(map[string]string)
	path := cmp.Or(c.path, os.Getenv("BELAY_CONFIG"))
	var file map[string]fileValue
	var wrong []error
	if path != "" {
		environment := cmp.Or(c.environment, os.Getenv("BELAY_ENVIRONMENT"), os.Getenv("APP_ENV"), os.Getenv("RAILS_ENV"), os.Getenv("RACK_ENV"), "development")
		var err error
		var sections []string
		file, sections, c.notes, err = readConfigFile(path, environment)
		wrong = append(wrong, err)
		// Rails' word, and the default, are said to all programs: a file need not have a section of them.
		if said := cmp.Or(c.environment, os.Getenv("BELAY_ENVIRONMENT")); said != "" && len(sections) > 0 && !slices.Contains(sections, said) {
			c.note("%s has no section %q, only %s: settings outside them are used", path, said, strings.Join(sections, ", "))
		}
		c.noteExposed(path, file["redis"])
	}
	for _, s := range settings {
		said, inFile := file[s.key]
		if inFile {
			c.sources[s.key] = fmt.Sprintf("%s:%d", path, said.line)
		}
		if s.flag == "" {
			c.capsules = said.capsules
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
		case inFile:
			words = said.words
		}
		for _, word := range words {
			if err := flag.Value.Set(word); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: it is %s", c.sources[s.key], wanted(flag)))
			}
		}
	}
	return errors.Join(wrong...)
}

// note appends to the remark for the operator.
func (c *config) note(format string, args ...any) {
	if c.remark != "" {
		c.remark += "; "
	}
	c.remark += fmt.Sprintf(format, args...)
}

// noteExposed warns of a password in a file that every user of the machine may read.
func (c *config) noteExposed(path string, redis fileValue) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o004 == 0 || len(redis.words) == 0 {
		return
	}
	if _, secret := hiddenURL(redis.words[0]); secret {
		c.note("every user of this machine can read the password of Redis in %s: chmod 600 it, or use BELAY_REDIS_URL", path)
	}
}

// said says whether the environment or the file gave a flag its value.
func (c *config) said(flag string) bool {
	at := slices.IndexFunc(settings, func(s setting) bool { return s.flag == flag })
	return at >= 0 && c.sources[settings[at].key] != ""
}

// fromEnvironment is what the environment says, as the flag would.
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

// wanted says what a flag's value is.
func wanted(flag *pflag.Flag) string {
	switch flag.Value.Type() {
	case "int":
		return "a whole number"
	case "duration":
		return "a duration such as 1500ms"
	}
	return "a " + flag.Value.Type()
}

// tell has errors that speak of a flag speak of where its value really comes from.
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
