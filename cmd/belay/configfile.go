package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/belayq/belay"
)

// A fileValue is the value of one setting, as the words of the setting's flag, or as queues or capsules,
// which may have names that a flag refuses.
type fileValue struct {
	source   string // "belay.yml:3"
	words    []string
	queues   []belay.QueueWeight
	capsules []belay.Capsule
}

// A fileReader reads a configuration file node by node instead of into a struct, because all mistakes are
// reported at once, each with its line and key. Values are not repeated: one may hold a password.
type fileReader struct {
	path    string
	errs    []error
	notes   []string // about keys that were read as other keys
	ignored []string // Sidekiq's settings in the file that Belay does not have, with their lines
	merges  int      // how many mappings were merged into others
}

// readConfigFile reads a file with Sidekiq's keys. As in Sidekiq, the section of an environment overrides the
// rest. It also returns the environments with a section, and notes for the log.
func readConfigFile(path, environment string) (values map[string]fileValue, sections, notes []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("--config: %w", err)
	}
	r := &fileReader{path: path}
	values, sections = r.document(string(text), environment)
	if len(r.ignored) > 0 {
		r.notes = append(r.notes, fmt.Sprintf("%s: ignored, because belay has no such settings: %s", path, strings.Join(r.ignored, "; ")))
	}
	return values, sections, r.notes, errors.Join(r.errs...)
}

// at returns the place of a line, for people.
func (r *fileReader) at(line int) string { return fmt.Sprintf("%s:%d", r.path, line) }

func (r *fileReader) fail(line int, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: %s", r.at(line), fmt.Sprintf(format, args...)))
}

func (r *fileReader) note(place, format string, args ...any) {
	r.notes = append(r.notes, place+": "+fmt.Sprintf(format, args...))
}

func (r *fileReader) document(text, environment string) (values map[string]fileValue, environments []string) {
	text = r.withEnvironment(text)
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var top, more yaml.Node
	switch err := decoder.Decode(&top); {
	case len(r.errs) > 0 || errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		r.errs = append(r.errs, fmt.Errorf("%s: %s", r.path, strings.TrimPrefix(err.Error(), "yaml: ")))
		return nil, nil
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		r.fail(max(more.Line, 1), "a second document begins: a file is one document")
	}
	values, sections := r.section(top.Content[0], "")
	own, hasOwn := sections[ownSection]
	delete(sections, ownSection)
	for name, section := range sections { // mistakes in the others are reported too
		if over, _ := r.section(section, name); name == environment {
			maps.Copy(values, over)
		}
	}
	if hasOwn { // last, because nothing in it is for Ruby
		over, _ := r.section(own, ownSection)
		maps.Copy(values, over)
	} else if queues, given := values["queues"]; given && len(r.ignored) > 0 {
		r.note(queues.source, "if Ruby reads this file too, both take these queues, and each fails the other's jobs: "+
			"name Belay's queues in a section %q", ownSection)
	}
	return values, slices.Sorted(maps.Keys(sections))
}

// section reads one level of settings. At the top, an unknown key with keys below it is the section of an
// environment.
func (r *fileReader) section(node *yaml.Node, environment string) (values map[string]fileValue, sections map[string]*yaml.Node) {
	values, sections = make(map[string]fileValue), make(map[string]*yaml.Node)
	within := word(environment != "", fmt.Sprintf(" (in %q, taken for the section of an environment)", environment))
	if environment == ownSection {
		within = fmt.Sprintf(" (in the section %q)", ownSection)
	}
	entries := r.mapping(node, "settings"+within)
	given := make(map[string]bool)
	for _, e := range entries {
		given[e.key] = true
	}
	for _, e := range entries {
		switch s, known := settingOf(e.key); {
		case known:
			if r.counts(s, e, given) {
				r.read(s, e, values)
			}
		case e.key == "verbose":
			if e.value.Value == "true" && !given["log_level"] { // Sidekiq's debug log
				values["log_level"] = fileValue{source: r.at(e.line), words: []string{"debug"}}
			}
		case notHere[e.key] != "":
			r.ignored = append(r.ignored, fmt.Sprintf("%s in line %d%s: %s", e.key, e.line, within, notHere[e.key]))
		case environment == "" && e.value.Kind == yaml.MappingNode:
			sections[e.key] = e.value
		default:
			r.fail(e.line, "%q is not a setting%s; the settings are %s", e.key, within, strings.Join(settingKeys(), ", "))
		}
	}
	return values, sections
}

// counts reports whether an entry is the first of the setting's keys that are given. It notes all other keys
// than the setting's own.
func (r *fileReader) counts(s setting, e entry, given map[string]bool) bool {
	keys := append([]string{s.key}, s.others...)
	first := keys[slices.IndexFunc(keys, func(key string) bool { return given[key] })]
	switch {
	case e.key != first:
		r.note(r.at(e.line), "%s is ignored: %s is given", e.key, first)
	case e.key != s.key:
		r.note(r.at(e.line), "%s is read as %s: one worker of the fleet polls this often", e.key, s.key)
	}
	return e.key == first
}

// envLookup matches the most frequent ERB in files of Sidekiq: a variable of the environment, optionally with a
// default.
var envLookup = regexp.MustCompile(strings.ReplaceAll(
	`<%=\s*(?:Integer)?\(?\s*ENV(?:\[["'](\w+)["']\]|(\.fetch)\(["'](\w+)["'](?:,\s*VALUE)?\)(?:\s*\{\s*VALUE\s*\})?)`+
		`(?:\s*\|\|\s*VALUE)?\s*\)?(?:\.to_[is])?\s*-?%>`, "VALUE", `("[^"]*"|'[^']*'|[\w.]+)`))

// withEnvironment replaces the ERB of a file that looks up variables of the environment, and reports any other.
func (r *fileReader) withEnvironment(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.Contains(line, "<%") || strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		lines[i] = envLookup.ReplaceAllStringFunc(line, func(lookup string) string {
			found := envLookup.FindStringSubmatch(lookup)
			name := cmp.Or(found[1], found[3])
			value, set := os.LookupEnv(name)
			instead := cmp.Or(found[4:]...)
			switch {
			case set:
				return value
			case instead == "" && found[2] != "":
				r.fail(i+1, "the variable %s is not set", name)
			}
			return strings.Trim(instead, `"'`)
		})
		if strings.Contains(lines[i], "<%") {
			r.fail(i+1, "this ERB is not supported: use <%%= ENV[\"NAME\"] || value %%>, or write the value")
		}
	}
	return strings.Join(lines, "\n")
}

// ownSection is the section that only Belay reads: what differs from Ruby's settings, such as the queues.
const ownSection = "belay"

const aboutPeriodic = "use belay periodic add, or Server.Schedule"

// notHere are settings of Sidekiq and its gems without an equivalent, and what to do instead. They are ignored,
// so that one file serves both.
var notHere = map[string]string{
	"pidfile":                  "let systemd or a similar supervisor start the worker; it tracks the process",
	"daemon":                   "the worker stays in the foreground; let systemd or a similar supervisor start it",
	"require":                  "there is no code to load; handlers are programs, see exec",
	"environment":              "set --environment or BELAY_ENVIRONMENT",
	"strict":                   "queues without weights are strict, as in Sidekiq, which ignores this key too; for a random order give each queue the weight 1",
	"dead_max_jobs":            "the dead set keeps at most 10,000 jobs, as Sidekiq's",
	"dead_timeout_in_seconds":  "dead jobs are kept for 180 days, as Sidekiq's",
	"backtrace":                "programs have none; a job may carry its own",
	"max_iteration_runtime":    "a job decides when it saves its progress, see belay.Checkpoint",
	"iteration":                "a job decides when it saves its progress, see belay.Checkpoint",
	"logged_job_attributes":    "log lines of jobs have jid, class, queue and attempt",
	"skip_default_job_logging": "there is a line per job only with log_level debug",
	"on_complex_arguments":     "the types of arguments are checked by the compiler",
	"redis_idle_timeout":       "idle connections are checked and opened again",
	"reloader":                 "there is no code to load",
	"scheduler":                aboutPeriodic,
	"schedule":                 aboutPeriodic,
	"cron":                     aboutPeriodic,
	"limits":                   "give the queue a capsule with a concurrency of its own",
	"process_limits":           "give the queue a capsule with a concurrency of its own",
}

// An entry is a key with its value.
type entry struct {
	key   string
	line  int
	value *yaml.Node // not an alias
}

// maxMerges limits how many mappings a file merges into others. Each level of nested merges multiplies their
// number, so a short file could ask for more than the memory holds, and a mapping may merge itself. Files of
// people have a few.
const maxMerges = 1000

// mapping returns the entries of a mapping, without the colons of Ruby's symbols. Merged entries come last, and
// do not override others. A repeated key is an error.
func (r *fileReader) mapping(node *yaml.Node, what string) (entries []entry) {
	node = resolveAlias(node)
	if node.Tag == "!!null" {
		return nil
	}
	if node.Kind != yaml.MappingNode {
		r.fail(node.Line, "%s: it must be keys with values, not %s", what, kindOf(node))
		return nil
	}
	lines := make(map[string]int) // of the keys
	var merged []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], resolveAlias(node.Content[i+1])
		key := strings.TrimPrefix(name.Value, ":")
		switch {
		case name.Tag == "!!merge" && value.Kind == yaml.SequenceNode:
			merged = append(merged, value.Content...)
		case name.Tag == "!!merge":
			merged = append(merged, value)
		case lines[key] > 0:
			r.fail(name.Line, "%s was set in line %d already", key, lines[key])
		default:
			lines[key] = name.Line
			entries = append(entries, entry{key, name.Line, value})
		}
	}
	for _, parent := range merged {
		if r.merges++; r.merges == maxMerges {
			r.fail(node.Line, "%s: this file merges mappings (<<) more than %d times: write the settings out", what, maxMerges)
		}
		if r.merges >= maxMerges {
			break
		}
		for _, e := range r.mapping(parent, what) {
			if lines[e.key] == 0 {
				lines[e.key] = e.line
				entries = append(entries, e)
			}
		}
	}
	return entries
}

// resolveAlias returns the node that an alias refers to.
func resolveAlias(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// kindOf describes a node.
func kindOf(node *yaml.Node) string {
	kinds := map[string]string{
		"!!map": "keys with values", "!!seq": "a list", "!!int": "a number", "!!float": "a number", "!!bool": "true or false",
		"!!null": "nothing",
	}
	if kind := kinds[node.Tag]; kind != "" {
		return kind
	}
	return "text"
}

// read reads the value of a setting, if it is valid.
func (r *fileReader) read(s setting, e entry, values map[string]fileValue) {
	before := len(r.errs)
	value := fileValue{source: r.at(e.line)}
	switch s.kind {
	case "capsules":
		value.capsules = r.capsules(e)
	case "queues":
		value.queues = r.queues(e.key, e.value)
	case "programs":
		for _, pair := range r.mapping(e.value, e.key) {
			if strings.Contains(pair.key, "=") {
				r.unlike(e.key, pair.value, "a class name without =")
			}
			value.words = append(value.words, r.program(e.key, pair))
		}
	case "strings":
		if e.value.Kind != yaml.SequenceNode {
			r.unlike(e.key, e.value, "a list")
		}
		for _, item := range e.value.Content {
			value.words = append(value.words, r.scalar("string", e.key, resolveAlias(item)))
		}
	default:
		kind := s.kind
		switch {
		case s.key == "redis" && e.value.Value == "" && e.value.Tag == "!!str": // to the flag it means another Redis
			r.fail(e.line, "redis: the URL is empty; leave it out for the default")
		case s.key == "poll" && e.value.Value == "off":
			kind = "string"
		}
		value.words = []string{r.scalar(kind, e.key, e.value)}
	}
	if len(r.errs) == before {
		values[s.key] = value
	}
}

// unlike reports that a node is not of the expected kind.
func (r *fileReader) unlike(key string, node *yaml.Node, want string) {
	r.fail(node.Line, "%s: it must be %s, not %s", key, want, kindOf(node))
}

// scalar reads one value of this kind of flag, as the flag's word.
func (r *fileReader) scalar(kind, key string, node *yaml.Node) string {
	text, want, ok := node.Value, "text (in quotes, if it looks like something else)", node.Tag == "!!str"
	switch kind {
	case "int":
		number := 0
		want, ok = "a whole number", node.Tag == "!!int" && node.Decode(&number) == nil
		text = strconv.Itoa(number)
	case "bool":
		on := false
		want, ok = "true or false", node.Tag == "!!bool" && node.Decode(&on) == nil
		text = strconv.FormatBool(on)
	case "duration": // a number is seconds, because Sidekiq's timeout is one
		text += word(node.Tag == "!!int" || node.Tag == "!!float", "s")
		_, err := time.ParseDuration(text)
		want, ok = "a duration such as 1500ms, or seconds", err == nil
	}
	if !ok {
		r.unlike(key, node, want)
	}
	return text
}

const queueForms = "a name, [name, weight] or name: weight, with a weight of 1 or more"

// queues reads all forms of Sidekiq: a list of names, "name,weight", [name, weight] and {name: weight}, or one
// mapping of names to weights.
func (r *fileReader) queues(key string, node *yaml.Node) (queues []belay.QueueWeight) {
	items := node.Content
	switch node.Kind {
	case yaml.MappingNode:
		items = []*yaml.Node{node}
	case yaml.SequenceNode:
	default:
		r.unlike(key, node, "a list, each "+queueForms)
	}
	for _, item := range items {
		found, ok := readQueue(resolveAlias(item))
		if !ok {
			r.unlike(key, item, queueForms)
		}
		queues = append(queues, found...)
	}
	return queues
}

func readQueue(node *yaml.Node) (queues []belay.QueueWeight, ok bool) {
	pairs := node.Content
	switch name, weight, weighted := strings.Cut(node.Value, ","); {
	case node.Tag == "!!str" && weighted:
		n, err := strconv.Atoi(weight)
		return []belay.QueueWeight{{Name: queueName(node, name), Weight: n}}, err == nil && n > 0
	case node.Tag == "!!str":
		return []belay.QueueWeight{{Name: queueName(node, name)}}, true
	case node.Kind != yaml.MappingNode && len(pairs) != 2:
		return nil, false
	}
	ok = true
	for i := 0; i+1 < len(pairs); i += 2 {
		key, n := resolveAlias(pairs[i]), 0
		ok = ok && key.Tag == "!!str" && pairs[i+1].Decode(&n) == nil && n > 0
		queues = append(queues, belay.QueueWeight{Name: queueName(key, key.Value), Weight: n})
	}
	return queues, ok
}

// queueName removes the colon of a symbol of Ruby's, which is not in quotes.
func queueName(node *yaml.Node, name string) string {
	if node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		return name
	}
	return strings.TrimPrefix(name, ":")
}

// fields passes the values of a mapping with fixed keys, which describes a thing, to their readers.
func (r *fileReader) fields(what, thing string, node *yaml.Node, readers map[string]func(what string, value *yaml.Node)) {
	for _, e := range r.mapping(node, what) {
		if read := readers[e.key]; read != nil {
			read(what+": "+e.key, e.value)
			continue
		}
		known := strings.Join(slices.Sorted(maps.Keys(readers)), ", ")
		r.fail(e.line, "%s: %q is not a setting of a %s; the settings are %s", what, e.key, thing, known)
	}
}

// program reads a command, or a mapping of a command and its timeout, as a value of --exec.
func (r *fileReader) program(key string, pair entry) string {
	if pair.value.Kind != yaml.MappingNode {
		return specOf(pair.key, "", r.scalar("string", key, pair.value))
	}
	var command, timeout string
	r.fields(key+" "+pair.key, "program", pair.value, map[string]func(string, *yaml.Node){
		"command": func(what string, value *yaml.Node) { command = r.scalar("string", what, value) },
		"timeout": func(what string, value *yaml.Node) { timeout = r.scalar("duration", what, value) },
	})
	return specOf(pair.key, timeout, command)
}

func (r *fileReader) capsules(e entry) (capsules []belay.Capsule) {
	for _, pair := range r.mapping(e.value, e.key) {
		capsule := belay.Capsule{Name: pair.key}
		r.fields("capsule "+pair.key, "capsule", pair.value, map[string]func(string, *yaml.Node){
			"queues": func(what string, value *yaml.Node) { capsule.Queues = r.queues(what, value) },
			"concurrency": func(what string, value *yaml.Node) {
				if value.Decode(&capsule.Concurrency) != nil || capsule.Concurrency < 1 {
					r.unlike(what, value, "a whole number of 1 or more")
				}
			},
		})
		capsules = append(capsules, capsule)
	}
	return capsules
}
