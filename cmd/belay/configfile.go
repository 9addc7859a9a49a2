package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/belayq/belay"
)

// A fileValue is the value of one setting, as the words of the setting's flag, or as queues or capsules,
// which may have names that a flag refuses.
type fileValue struct {
	line     int
	words    []string
	queues   []belay.QueueWeight
	capsules []belay.Capsule
}

// A fileReader reads a configuration file node by node instead of into a struct, because all mistakes are
// reported at once, each with its line and key. Values are not repeated: one may hold a password.
type fileReader struct {
	path  string
	wrong []error
	notes []string // about keys that were read as other keys
}

// readConfigFile reads a file with Sidekiq's keys, and lays the section of an environment over it, as Sidekiq
// does. It also returns the environments with a section, and notes for the log.
func readConfigFile(path, environment string) (values map[string]fileValue, sections, notes []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("--config: %w", err)
	}
	r := &fileReader{path: path}
	values, sections = r.document(string(text), environment)
	return values, sections, r.notes, errors.Join(r.wrong...)
}

func (r *fileReader) fail(line int, format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Errorf("%s:%d: %s", r.path, line, fmt.Sprintf(format, args...)))
}

func (r *fileReader) document(text, environment string) (values map[string]fileValue, environments []string) {
	for i, line := range strings.Split(text, "\n") {
		if strings.Contains(line, "<%") && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			r.fail(i+1, "ERB is not supported: write the value, or set it in the environment")
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var top, more yaml.Node
	switch err := decoder.Decode(&top); {
	case len(r.wrong) > 0 || errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		r.wrong = append(r.wrong, fmt.Errorf("%s: %s", r.path, strings.TrimPrefix(err.Error(), "yaml: ")))
		return nil, nil
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		r.fail(max(more.Line, 1), "a second document begins: a file is one document")
	}
	values, sections := r.section(top.Content[0], "")
	for name, section := range sections {
		over, _ := r.section(section, name)
		if name == environment {
			maps.Copy(values, over)
		}
	}
	return values, slices.Sorted(maps.Keys(sections))
}

// section reads one level of settings. At the top, an unknown key with keys below it is the section of an
// environment.
func (r *fileReader) section(node *yaml.Node, environment string) (values map[string]fileValue, sections map[string]*yaml.Node) {
	values, sections = make(map[string]fileValue), make(map[string]*yaml.Node)
	within := word(environment != "", fmt.Sprintf(" (in %q, taken for the section of an environment)", environment))
	for _, e := range r.nearest(r.mapping(node, "settings"+within)) {
		s, known := settingByKey(e.key)
		switch {
		case known:
			if value, ok := r.value(s, e); ok {
				values[e.key] = value
			}
		case notHere[e.key] != "":
			r.fail(e.line, "%s%s: belay has no such setting: %s", e.key, within, notHere[e.key])
		case environment == "" && e.value.Kind == yaml.MappingNode:
			sections[e.key] = e.value
		default:
			r.fail(e.line, "%q is not a setting%s; the settings are %s", e.key, within, strings.Join(settingKeys(), ", "))
		}
	}
	return values, sections
}

// averagePoll is Sidekiq's setting for how often a whole fleet polls for due jobs. Belay has one poller for
// the fleet, so the poller's period is the nearest setting.
const averagePoll = "average_scheduled_poll_interval"

// nearest replaces a Sidekiq setting with its nearest Belay equivalent and adds a note. If the file has both,
// Belay's setting wins.
func (r *fileReader) nearest(entries []entry) []entry {
	at := slices.IndexFunc(entries, func(e entry) bool { return e.key == averagePoll })
	switch {
	case at < 0:
	case slices.ContainsFunc(entries, func(e entry) bool { return e.key == "poll" }):
		r.notes = append(r.notes, fmt.Sprintf("%s:%d: %s is ignored: poll is given", r.path, entries[at].line, averagePoll))
		entries = slices.Delete(entries, at, at+1)
	default:
		r.notes = append(r.notes, fmt.Sprintf("%s:%d: %s is read as poll: one worker of the fleet polls this often",
			r.path, entries[at].line, averagePoll))
		entries[at].key = "poll"
	}
	return entries
}

// notHere are Sidekiq's settings without an equivalent, and what to do instead.
var notHere = map[string]string{
	"pidfile":                 "let systemd or a similar supervisor start the worker; it tracks the process",
	"daemon":                  "the worker stays in the foreground; let systemd or a similar supervisor start it",
	"require":                 "there is no code to load; handlers are programs, see exec",
	"environment":             "set --environment or BELAY_ENVIRONMENT",
	"verbose":                 "write log_level: debug",
	"strict":                  "queues without weights are strict already",
	"poll_interval_average":   "write poll, with a duration such as 100ms",
	"dead_max_jobs":           "the dead set keeps at most 10,000 jobs, as Sidekiq's",
	"dead_timeout_in_seconds": "dead jobs are kept for 180 days, as Sidekiq's",
	"backtrace":               "programs have none; a job may carry its own",
	"scheduler":               "belay has no cron",
	"schedule":                "belay has no cron",
	"cron":                    "belay has no cron",
}

// An entry is a key with its value.
type entry struct {
	key   string
	line  int
	value *yaml.Node // not an alias
}

// mostMerges limits the depth of nested merges: a file may merge itself.
const mostMerges = 8

// mapping returns the entries of a mapping, without the colons of Ruby's symbols. A repeated key is an error.
func (r *fileReader) mapping(node *yaml.Node, what string) []entry {
	return r.merged(node, what, mostMerges)
}

func (r *fileReader) merged(node *yaml.Node, what string, depth int) []entry {
	node = followed(node)
	if node.Tag == "!!null" {
		return nil
	}
	if node.Kind != yaml.MappingNode || depth == 0 {
		r.fail(node.Line, "%s: it is keys with values, not %s", what, kindOf(node))
		return nil
	}
	var entries, lower []entry
	at := make(map[string]int)
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], followed(node.Content[i+1])
		if name.Tag == "!!merge" {
			parents := []*yaml.Node{value}
			if value.Kind == yaml.SequenceNode {
				parents = value.Content
			}
			for _, parent := range parents {
				lower = append(lower, r.merged(parent, what, depth-1)...)
			}
			continue
		}
		key := strings.TrimPrefix(name.Value, ":")
		if first, twice := at[key]; twice {
			r.fail(name.Line, "%s was set in line %d already", key, first)
			continue
		}
		at[key] = name.Line
		entries = append(entries, entry{key, name.Line, value})
	}
	for _, e := range lower {
		if at[e.key] == 0 {
			at[e.key] = e.line
			entries = append(entries, e)
		}
	}
	return entries
}

// followed returns the node that an alias stands for.
func followed(node *yaml.Node) *yaml.Node {
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
