package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/launcher"
)

// A printedPair is a line below capsules or exec.
type printedPair struct{ key, value any }

// A printedCapsule is a capsule in the form of a file.
type printedCapsule struct {
	Concurrency int   `yaml:"concurrency,omitempty"`
	Queues      []any `yaml:"queues"`
}

// write prints the settings as a file that --config can read. A URL with a password is printed in a comment,
// without the password.
func (c *config) write(out io.Writer, flags *pflag.FlagSet, server belay.ServerConfig) error {
	page := bytes.NewBufferString("# The settings of this worker, each with its source.\n")
	for _, s := range settings {
		source := cmp.Or(c.sources[s.key], "default")
		value := printedValue(s, flags, server)
		if pairs, many := value.([]printedPair); many && len(pairs) == 0 {
			value = struct{}{}
		} else if many {
			_, _ = fmt.Fprintf(page, "# %s: %s\n%s:\n", s.key, source, s.key)
			for _, pair := range pairs {
				_, _ = fmt.Fprintf(page, "  %s: %s\n", inYAML(pair.key), inYAML(pair.value))
			}
			continue
		}
		line := fmt.Sprintf("%s: %s # %s\n", s.key, inYAML(value), source)
		url, _ := value.(string)
		if hidden, secret := hiddenURL(url); s.key == "redis" && secret {
			line = fmt.Sprintf("# redis: %s # %s\n", hidden, source)
		}
		if value != nil {
			page.WriteString(line)
		}
	}
	_, err := page.WriteTo(out)
	return err
}

// derived returns the value of a setting whose default depends on others, or is nothing.
func derived(key string, server belay.ServerConfig) any {
	cfg := launcher.Config{Beat: server.Heartbeat, TTL: server.TTL, Janitor: server.JanitorInterval, PollWait: server.PollWait}.WithDefaults()
	switch key {
	case "ttl":
		return cfg.TTL.String()
	case "janitor":
		return cfg.Janitor.String()
	case "poll_wait":
		return cfg.PollWait.String()
	}
	return nil
}

// printedValue returns the value of a setting, or nil for one without a value.
func printedValue(s setting, flags *pflag.FlagSet, server belay.ServerConfig) any {
	pairs := []printedPair{}
	switch s.key {
	case "capsules":
		for _, capsule := range server.Capsules {
			pairs = append(pairs, printedPair{capsule.Name, printedCapsule{capsule.Concurrency, printedQueues(capsule.Queues)}})
		}
		return pairs
	case "exec":
		specs, _ := flags.GetStringArray("exec")
		for _, spec := range specs {
			class, command, _ := strings.Cut(spec, "=")
			pairs = append(pairs, printedPair{class, command})
		}
		return pairs
	case "queues":
		return printedQueues(server.Queues)
	case "labels":
		return server.Labels
	}
	text := flags.Lookup(s.flag).Value.String()
	number, notANumber := strconv.Atoi(text)
	switch {
	case s.kind == "int" && notANumber == nil:
		return number
	case s.kind == "duration" && text == "":
		return derived(s.key, server)
	case s.key == "redis":
		return cmp.Or(text, defaultURL)
	}
	return text
}

// inYAML encodes a value in one line.
func inYAML(value any) string {
	node := &yaml.Node{}
	_ = node.Encode(value) // plain values only
	switch {
	case node.Kind != yaml.ScalarNode:
		node.Style = yaml.FlowStyle
	case strings.Contains(node.Value, "\n"):
		node.Style = yaml.DoubleQuotedStyle
	}
	text, _ := yaml.Marshal(node)
	return strings.TrimSpace(string(text))
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
func hiddenURL(text string) (hidden string, secret bool) {
	parsed, err := url.Parse(text)
	if err != nil || driver.CheckURL(text) != nil {
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
