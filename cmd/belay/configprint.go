package main

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/belayq/belay/driver"
)

const printedHead = "What belay work works with here; behind each setting stands where it comes from."

// write writes the settings as a file that --config reads. A URL with a password in it stands in a comment, without it.
func (c *config) write(out io.Writer, flags *pflag.FlagSet) error {
	top := &yaml.Node{Kind: yaml.MappingNode, HeadComment: printedHead}
	for _, s := range settings {
		source := c.sources[s.key]
		if source == "" {
			source = "default"
		}
		value := c.value(s, flags)
		if value == nil {
			continue
		}
		key := textNode(s.key)
		if hidden, secret := hiddenURL(value.Value); s.key == "redis" && secret {
			top.FootComment = fmt.Sprintf("redis: %s # %s", hidden, source)
			continue
		}
		if value.Kind == yaml.ScalarNode || value.Style == yaml.FlowStyle {
			value.LineComment = source
		} else {
			key.HeadComment = s.key + ": " + source
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

// value is a setting's value as a file would say it; nil for one that is left to others to decide.
func (c *config) value(s setting, flags *pflag.FlagSet) *yaml.Node {
	if s.flag == "" {
		return c.capsulesNode()
	}
	value := flags.Lookup(s.flag).Value
	many, isList := value.(pflag.SliceValue)
	switch {
	case s.key == "exec":
		return programsNode(many.GetSlice())
	case s.key == "queues":
		return queuesNode(many.GetSlice())
	case isList:
		return listNode(many.GetSlice())
	case s.key == "redis" && value.String() == "":
		return textNode(defaultURL)
	case value.Type() == "int":
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: value.String()}
	case value.Type() == "duration" && value.String() == "0s" && c.sources[s.key] == "":
		return nil // follows from others
	}
	return textNode(value.String())
}

func textNode(text string) *yaml.Node {
	node := &yaml.Node{}
	node.SetString(text)
	return node
}

func listNode(words []string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, word := range words {
		node.Content = append(node.Content, textNode(word))
	}
	return node
}

func queuesNode(specs []string) *yaml.Node {
	if len(specs) == 0 {
		specs = []string{"default"}
	}
	node := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, spec := range specs {
		name, weight, weighted := strings.Cut(spec, ",")
		if !weighted {
			node.Content = append(node.Content, textNode(name))
			continue
		}
		pair := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		pair.Content = []*yaml.Node{textNode(name), {Kind: yaml.ScalarNode, Tag: "!!int", Value: weight}}
		node.Content = append(node.Content, pair)
	}
	return node
}

func programsNode(specs []string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for _, spec := range specs {
		class, command, _ := strings.Cut(spec, "=")
		node.Content = append(node.Content, textNode(class), textNode(command))
	}
	if len(specs) == 0 {
		node.Style = yaml.FlowStyle
	}
	return node
}

func (c *config) capsulesNode() *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for _, its := range c.capsules {
		about := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
		if its.concurrency > 0 {
			about.Content = append(about.Content, textNode("concurrency"), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(its.concurrency)})
		}
		about.Content = append(about.Content, textNode("queues"), queuesNode(its.queues))
		node.Content = append(node.Content, textNode(its.name), about)
	}
	if len(c.capsules) == 0 {
		node.Style = yaml.FlowStyle
	}
	return node
}

// hiddenURL is a URL without its password, and whether it has one. A user without a password is hidden as well: hardly any
// Redis has one, and a password is easily written in its place. What is no URL is hidden whole: it may be one that was misspelt.
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
