package main

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/launcher"
)

// write prints the settings as a file that --config can read, each with its source in a comment. A URL with a
// password is printed in a comment, without the password.
func (c *config) write(out io.Writer, flags *pflag.FlagSet, server belay.ServerConfig) error {
	page := &yaml.Node{Kind: yaml.MappingNode}
	comments := []string{"The settings of this worker, each with its source."} // above the next setting
	for _, s := range settings {
		key, value, source := inYAML(s.key), printedValue(s, flags, server), cmp.Or(c.sources[s.key], "default")
		hidden, secret := hiddenURL(value.Value)
		switch {
		case s.key == "redis" && secret:
			comments = append(comments, fmt.Sprintf("redis: %s # %s", hidden, source))
			continue
		case value.Kind == yaml.MappingNode && len(value.Content) > 0: // it has a line for each pair
			comments = append(comments, s.key+": "+source)
		default:
			value.LineComment = source
		}
		key.HeadComment, comments = strings.Join(comments, "\n"), nil
		page.Content = append(page.Content, key, value)
	}
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	return encoder.Encode(page)
}

// A printedCapsule is a capsule in the form of a file.
type printedCapsule struct {
	Concurrency int   `yaml:"concurrency,omitempty"`
	Queues      []any `yaml:"queues"`
}

// A printedProgram is a program with a timeout, in the form of a file.
type printedProgram struct {
	Command string `yaml:"command"`
	Timeout string `yaml:"timeout"`
}

// printedValue returns the value of a setting in the form of a file.
func printedValue(s setting, flags *pflag.FlagSet, server belay.ServerConfig) *yaml.Node {
	pairs := &yaml.Node{Kind: yaml.MappingNode}
	switch s.kind {
	case "capsules":
		for _, capsule := range server.Capsules {
			printed := printedCapsule{capsule.Concurrency, printedQueues(capsule.Queues)}
			pairs.Content = append(pairs.Content, inYAML(capsule.Name), inYAML(printed))
		}
		return pairs
	case "programs":
		specs, _ := flags.GetStringArray(s.flag)
		for _, spec := range specs {
			class, timeout, command, _ := splitSpec(spec)
			value := inYAML(command)
			if timeout != "" {
				value = inYAML(printedProgram{command, timeout})
			}
			pairs.Content = append(pairs.Content, inYAML(class), value)
		}
		return pairs
	case "queues":
		return inYAML(printedQueues(server.Queues))
	case "strings":
		return inYAML(server.Labels)
	}
	text := flags.Lookup(s.flag).Value.String()
	number, err := strconv.Atoi(text)
	switch {
	case s.kind == "int" && err == nil:
		return inYAML(number)
	case s.kind == "bool":
		return inYAML(text == "true")
	case s.kind == "duration" && text == "":
		return inYAML(derivedDefault(s.key, server).String())
	case s.key == "redis":
		return inYAML(cmp.Or(text, defaultURL))
	}
	return inYAML(text)
}

// derivedDefault returns the default of a setting whose default depends on others.
func derivedDefault(key string, server belay.ServerConfig) time.Duration {
	cfg := launcher.Config{Beat: server.Heartbeat, TTL: server.TTL, Janitor: server.JanitorInterval, PollWait: server.PollWait}.WithDefaults()
	return map[string]time.Duration{"ttl": cfg.TTL, "janitor": cfg.Janitor, "poll_wait": cfg.PollWait}[key]
}

// inYAML encodes a plain value. Lists and capsules are written in one line.
func inYAML(value any) *yaml.Node {
	node := &yaml.Node{}
	_ = node.Encode(value) // cannot fail with a plain value
	if node.Kind != yaml.ScalarNode {
		node.Style = yaml.FlowStyle
	}
	return node
}

func printedQueues(of []belay.QueueWeight) []any {
	var queues []any
	for _, queue := range of {
		if queue.Weight > 0 {
			queues = append(queues, []any{queue.Name, queue.Weight})
		} else {
			queues = append(queues, queue.Name)
		}
	}
	if len(queues) == 0 {
		return []any{"default"}
	}
	return queues
}

// hiddenURL returns a URL without its password, and whether it has one. It also hides a user without a
// password: hardly any Redis has one, and a password is easily written in its place. It hides a malformed URL
// completely.
// Of a list of shards it hides each password.
func hiddenURL(text string) (hidden string, secret bool) {
	if list, err := driver.SplitList(text); list != nil || err != nil {
		items := strings.Fields(text)
		for i, item := range items {
			name, url, _ := strings.Cut(item, "=")
			shown, has := hiddenURL(url)
			items[i], secret = name+"="+shown, secret || has
		}
		return strings.Join(items, " "), secret
	}
	parsed, err := driver.Structure(text)
	if err != nil {
		return "(hidden)", true
	}
	if _, secret = parsed.User.Password(); secret {
		parsed.User = url.UserPassword(parsed.User.Username(), "hidden")
	} else if secret = parsed.User != nil; secret {
		parsed.User = url.User("hidden")
	}
	query := parsed.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "pass") {
			query.Set(name, "hidden")
			secret = true
		}
	}
	if secret {
		parsed.RawQuery = query.Encode()
	}
	return parsed.String(), secret
}
