package main

import (
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/belayq/belay"
)

// A failFunc reports that a node is not what was wanted. It returns no words.
type failFunc func(node *yaml.Node, want string) []string

// value reads the value of a setting, and reports whether it is valid.
func (r *fileReader) value(s setting, e entry) (value fileValue, ok bool) {
	before := len(r.wrong)
	value.line = e.line
	switch s.key {
	case "capsules":
		value.capsules = r.capsules(e)
	case "queues":
		value.queues = readQueues(e.value, r.failing(e.key))
	default:
		value.words = s.read(e.value, r.failing(e.key))
	}
	return value, len(r.wrong) == before
}

// failing returns the failFunc for a key.
func (r *fileReader) failing(key string) failFunc {
	return func(node *yaml.Node, want string) []string {
		r.fail(node.Line, "%s: it is %s, not %s", key, want, kindOf(node))
		return nil
	}
}

func readText(node *yaml.Node, fail failFunc) []string {
	if node.Tag != "!!str" {
		return fail(node, "text (in quotes, if it looks like something else)")
	}
	return []string{node.Value}
}

// readURL refuses an empty URL, which would mean the default, and so another Redis.
func readURL(node *yaml.Node, fail failFunc) []string {
	if node.Tag == "!!str" && node.Value == "" {
		return fail(node, "a URL; leave it out for the default: the URL is empty")
	}
	return readText(node, fail)
}

func readNumber(node *yaml.Node, fail failFunc) []string {
	var number int
	if node.Tag != "!!int" || node.Decode(&number) != nil {
		return fail(node, "a whole number")
	}
	return []string{strconv.Itoa(number)}
}

// readDuration reads a number as seconds, because Sidekiq's timeout is one.
func readDuration(node *yaml.Node, fail failFunc) []string {
	text := node.Value
	if node.Tag == "!!int" || node.Tag == "!!float" {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fail(node, "a duration such as 1500ms, or seconds")
	}
	return []string{d.String()}
}

func readList(node *yaml.Node, fail failFunc) (words []string) {
	if node.Kind != yaml.SequenceNode {
		return fail(node, "a list")
	}
	for _, item := range node.Content {
		words = append(words, readText(followed(item), fail)...)
	}
	return words
}

func readPrograms(node *yaml.Node, fail failFunc) (words []string) {
	if node.Kind != yaml.MappingNode {
		return fail(node, "classes with commands")
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		class := node.Content[i]
		if strings.Contains(class.Value, "=") {
			fail(class, "a class name without =")
			continue
		}
		for _, command := range readText(followed(node.Content[i+1]), fail) {
			words = append(words, class.Value+"="+command)
		}
	}
	return words
}

const queueForms = "a name, [name, weight] or name: weight, with a weight of 1 or more"

// readQueues reads all forms of Sidekiq: a list of names, "name,weight", [name, weight] and {name: weight},
// or one mapping of names to weights.
func readQueues(node *yaml.Node, fail failFunc) (queues []belay.QueueWeight) {
	switch node.Kind {
	case yaml.MappingNode:
		return readQueue(node, fail)
	case yaml.SequenceNode:
		for _, item := range node.Content {
			queues = append(queues, readQueue(followed(item), fail)...)
		}
		return queues
	}
	fail(node, "a list, each "+queueForms)
	return nil
}

func readQueue(node *yaml.Node, fail failFunc) (queues []belay.QueueWeight) {
	name, weight, weighted := strings.Cut(node.Value, ",")
	switch {
	case node.Tag == "!!str" && weighted:
		if n, err := strconv.Atoi(weight); err == nil && n > 0 {
			return []belay.QueueWeight{{Name: queueName(node, name), Weight: n}}
		}
	case node.Tag == "!!str":
		return []belay.QueueWeight{{Name: queueName(node, name)}}
	case node.Kind == yaml.MappingNode, node.Kind == yaml.SequenceNode && len(node.Content) == 2:
		ok := true
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, n := followed(node.Content[i]), 0
			ok = ok && key.Tag == "!!str" && node.Content[i+1].Decode(&n) == nil && n > 0
			queues = append(queues, belay.QueueWeight{Name: queueName(key, key.Value), Weight: n})
		}
		if ok {
			return queues
		}
	}
	fail(node, queueForms)
	return nil
}

// queueName removes the colon of a symbol of Ruby's, which is not in quotes.
func queueName(node *yaml.Node, name string) string {
	if node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		return name
	}
	return strings.TrimPrefix(name, ":")
}

func (r *fileReader) capsules(e entry) (capsules []belay.Capsule) {
	for _, one := range r.mapping(e.value, e.key) {
		capsule, what := belay.Capsule{Name: one.key}, "capsule "+one.key
		for _, about := range r.mapping(one.value, what) {
			fail := r.failing(what + ": " + about.key)
			switch about.key {
			case "concurrency":
				if about.value.Decode(&capsule.Concurrency) != nil || capsule.Concurrency < 1 {
					fail(about.value, "a whole number of 1 or more")
				}
			case "queues":
				capsule.Queues = readQueues(about.value, fail)
			default:
				r.fail(about.line, "%s: %q is not a setting of a capsule; the settings are concurrency, queues", what, about.key)
			}
		}
		capsules = append(capsules, capsule)
	}
	return capsules
}
