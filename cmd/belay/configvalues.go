package main

import (
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/belayq/belay"
)

// value reads the value of a setting, and reports whether it is valid.
func (r *fileReader) value(s setting, e entry) (value fileValue, ok bool) {
	before := len(r.wrong)
	value.line = e.line
	switch {
	case s.key == "capsules":
		value.capsules = r.capsules(e)
	case s.key == "queues":
		value.queues = r.queues(e.key, e.value)
	case s.key == "exec":
		for _, one := range r.mapping(e.value, e.key) {
			if strings.Contains(one.key, "=") {
				r.unlike(e.key, one.value, "a class name without =")
			}
			value.words = append(value.words, one.key+"="+r.scalar("string", e.key, one.value))
		}
	case s.list && e.value.Kind == yaml.SequenceNode:
		for _, item := range e.value.Content {
			value.words = append(value.words, r.scalar("string", e.key, followed(item)))
		}
	case s.list:
		r.unlike(e.key, e.value, "a list")
	case s.key == "redis" && e.value.Value == "" && e.value.Tag == "!!str": // to the flag it means another Redis
		r.fail(e.line, "redis: the URL is empty; leave it out for the default")
	default:
		value.words = []string{r.scalar(s.kind, e.key, e.value)}
	}
	return value, len(r.wrong) == before
}

// unlike reports that a node is not what was wanted.
func (r *fileReader) unlike(key string, node *yaml.Node, want string) {
	r.fail(node.Line, "%s: it is %s, not %s", key, want, kindOf(node))
}

// scalar reads one value of this kind of flag, as the flag's word.
func (r *fileReader) scalar(kind, key string, node *yaml.Node) string {
	text, want, ok := node.Value, "text (in quotes, if it looks like something else)", node.Tag == "!!str"
	switch kind {
	case "int":
		number := 0
		want, ok = "a whole number", node.Tag == "!!int" && node.Decode(&number) == nil
		text = strconv.Itoa(number)
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
		found, ok := readQueue(followed(item))
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
		key, n := followed(pairs[i]), 0
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

func (r *fileReader) capsules(e entry) (capsules []belay.Capsule) {
	for _, one := range r.mapping(e.value, e.key) {
		capsule, what := belay.Capsule{Name: one.key}, "capsule "+one.key
		for _, about := range r.mapping(one.value, what) {
			switch about.key {
			case "concurrency":
				if about.value.Decode(&capsule.Concurrency) != nil || capsule.Concurrency < 1 {
					r.unlike(what+": concurrency", about.value, "a whole number of 1 or more")
				}
			case "queues":
				capsule.Queues = r.queues(what+": queues", about.value)
			default:
				r.fail(about.line, "%s: %q is not a setting of a capsule; the settings are concurrency, queues", what, about.key)
			}
		}
		capsules = append(capsules, capsule)
	}
	return capsules
}
