package main

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
)

const printedHead = "The settings of this worker, each with its source."

// write prints the settings as a file that --config can read. A URL with a password is printed in a comment,
// without the password.
func (c *config) write(out io.Writer, flags *pflag.FlagSet, server belay.ServerConfig) error {
	top := &yaml.Node{Kind: yaml.MappingNode, HeadComment: printedHead}
	for _, s := range settings {
		source := c.sources[s.key]
		if source == "" {
			source = "default"
		}
		value := c.value(s, flags, server)
		if value == nil {
			continue
		}
		key := node(s.key)
		if hidden, secret := hiddenURL(value.Value); s.key == "redis" && secret {
			top.FootComment = fmt.Sprintf("redis: %s # %s", hidden, source)
			continue
		}
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 {
			key.HeadComment = s.key + ": " + source
		} else {
			value.LineComment = source
		}
		top.Content = append(top.Content, key, value)
	}
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	if err := encoder.Encode(top); err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	return encoder.Close()
}

// value returns a setting's value in the form of a file, or nil for one that follows from others.
func (c *config) value(s setting, flags *pflag.FlagSet, server belay.ServerConfig) *yaml.Node {
	if s.key == "capsules" {
		var pairs []*yaml.Node
		for _, capsule := range server.Capsules {
			var about []*yaml.Node
			if capsule.Concurrency > 0 {
				about = append(about, node("concurrency"), node(capsule.Concurrency))
			}
			about = append(about, node("queues"), queuesNode(capsule.Queues))
			pairs = append(pairs, node(capsule.Name), &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: about})
		}
		return block(pairs)
	}
	value := flags.Lookup(s.flag).Value
	switch many, _ := value.(pflag.SliceValue); {
	case s.key == "exec":
		var pairs []*yaml.Node
		for _, spec := range many.GetSlice() {
			class, command, _ := strings.Cut(spec, "=")
			pairs = append(pairs, node(class), node(command))
		}
		return block(pairs)
	case s.key == "queues":
		return queuesNode(server.Queues)
	case s.key == "labels":
		return node(append([]string{}, server.Labels...))
	case s.key == "redis" && value.String() == "":
		return node(defaultURL)
	case value.Type() == "int":
		number, _ := strconv.Atoi(value.String())
		return node(number)
	case value.Type() == "duration" && value.String() == "":
		return nil
	}
	return node(value.String())
}

// node encodes a value in one line.
func node(value any) *yaml.Node {
	n := &yaml.Node{}
	_ = n.Encode(value) // plain values only
	if n.Kind != yaml.ScalarNode {
		n.Style = yaml.FlowStyle
	}
	return n
}

// block returns a mapping with a line for each key, in order.
func block(pairs []*yaml.Node) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Content: pairs}
	if len(pairs) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n
}

func queuesNode(of []belay.QueueWeight) *yaml.Node {
	queues := []any{}
	for _, queue := range of {
		if queue.Weight > 0 {
			queues = append(queues, []any{queue.Name, queue.Weight})
		} else {
			queues = append(queues, queue.Name)
		}
	}
	if len(queues) == 0 {
		queues = append(queues, "default")
	}
	return node(queues)
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
