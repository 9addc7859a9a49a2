package main

import (
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// The ways to read a value. Each answers whether it could.

func (r *fileReader) refuse(e entry, want string) bool {
	r.fail(e.value.Line, "%s: it is %s, not %s", e.key, want, kindOf(e.value))
	return false
}

func readText(r *fileReader, e entry, value *fileValue) bool {
	if e.value.Kind != yaml.ScalarNode || e.value.Tag != "!!str" {
		return r.refuse(e, "text (in quotes, if it looks like something else)")
	}
	value.words = []string{e.value.Value}
	return true
}

// readURL reads a URL and refuses an empty one, which would mean the default URL and so another Redis.
func readURL(r *fileReader, e entry, value *fileValue) bool {
	if !readText(r, e, value) {
		return false
	}
	if value.words[0] == "" {
		r.fail(e.value.Line, "%s: the URL is empty; leave it out for the default", e.key)
	}
	return value.words[0] != ""
}

func readNumber(r *fileReader, e entry, value *fileValue) bool {
	n, ok := wholeNumber(e.value)
	if !ok {
		return r.refuse(e, "a whole number")
	}
	value.words = []string{strconv.Itoa(n)}
	return true
}

func wholeNumber(node *yaml.Node) (int, bool) {
	n, err := strconv.Atoi(strings.ReplaceAll(node.Value, "_", ""))
	return n, err == nil && node.Kind == yaml.ScalarNode && node.Tag == "!!int"
}

// readDuration reads a number as seconds, because Sidekiq's timeout is one.
func readDuration(r *fileReader, e entry, value *fileValue) bool {
	text := e.value.Value
	switch {
	case e.value.Kind != yaml.ScalarNode:
		return r.refuse(e, "a duration such as 1500ms, or seconds")
	case e.value.Tag == "!!int" || e.value.Tag == "!!float":
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return r.refuse(e, "a duration such as 1500ms, or seconds")
	}
	value.words = []string{d.String()}
	return true
}

func readList(r *fileReader, e entry, value *fileValue) bool {
	if e.value.Kind != yaml.SequenceNode {
		return r.refuse(e, "a list")
	}
	ok := true
	for _, item := range e.value.Content {
		one := fileValue{}
		if ok = readText(r, entry{e.key, item.Line, followed(item)}, &one) && ok; ok {
			value.words = append(value.words, one.words...)
		}
	}
	return ok
}

const queueForms = "a name, [name, weight] or name: weight"

// readQueues reads all that Sidekiq reads: a list of names, "name,weight", [name, weight] and {name: weight}, or one
// mapping of names to weights.
func readQueues(r *fileReader, e entry, value *fileValue) bool {
	switch e.value.Kind {
	case yaml.MappingNode:
		return r.weights(e, value)
	case yaml.SequenceNode:
	default:
		return r.refuse(e, "a list, each "+queueForms)
	}
	ok := true
	for _, item := range e.value.Content {
		ok = r.queue(entry{e.key, item.Line, followed(item)}, value) && ok
	}
	return ok
}

func (r *fileReader) queue(e entry, value *fileValue) bool {
	switch e.value.Kind {
	case yaml.MappingNode:
		return r.weights(e, value)
	case yaml.SequenceNode:
		if len(e.value.Content) == 2 {
			return r.weighted(entry{e.key, e.line, followed(e.value.Content[1])}, followed(e.value.Content[0]), value)
		}
	case yaml.ScalarNode:
		if e.value.Tag == "!!str" {
			value.words = append(value.words, queueName(e.value))
			return true
		}
	}
	return r.refuse(e, queueForms)
}

func (r *fileReader) weights(e entry, value *fileValue) bool {
	ok := true
	for i := 0; i+1 < len(e.value.Content); i += 2 {
		name := e.value.Content[i]
		ok = r.weighted(entry{e.key, name.Line, followed(e.value.Content[i+1])}, name, value) && ok
	}
	return ok
}

// weighted reads a queue whose weight is the entry's value.
func (r *fileReader) weighted(e entry, name *yaml.Node, value *fileValue) bool {
	weight, ok := wholeNumber(e.value)
	if !ok || weight < 1 || name.Kind != yaml.ScalarNode || name.Tag != "!!str" {
		r.fail(e.line, "%s: a queue is %s, with a weight of 1 or more", e.key, queueForms)
		return false
	}
	value.words = append(value.words, queueName(name)+","+strconv.Itoa(weight))
	return true
}

// queueName takes the colon from what was a symbol to Ruby.
func queueName(node *yaml.Node) string {
	if node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		return node.Value
	}
	return strings.TrimPrefix(node.Value, ":")
}

func readCapsules(r *fileReader, e entry, value *fileValue) bool {
	before := len(r.wrong)
	for _, one := range r.mapping(e.value, e.key) {
		its := capsuleSetting{name: one.key}
		for _, about := range r.mapping(one.value, "capsule "+one.key) {
			var read fileValue
			switch {
			case about.key == "concurrency":
				if readNumber(r, about, &read) {
					if its.concurrency, _ = strconv.Atoi(read.words[0]); its.concurrency < 1 {
						r.fail(about.line, "capsule %s: concurrency: it is 1 or more", one.key)
					}
				}
			case about.key == "queues":
				readQueues(r, about, &read)
				its.queues = read.words
			default:
				r.fail(about.line, "capsule %s: %q is no setting of a capsule; these are: concurrency, queues", one.key, about.key)
			}
		}
		value.capsules = append(value.capsules, its)
	}
	return len(r.wrong) == before
}

func readPrograms(r *fileReader, e entry, value *fileValue) bool {
	before := len(r.wrong)
	for _, one := range r.mapping(e.value, e.key) {
		var read fileValue
		if strings.Contains(one.key, "=") {
			r.fail(one.line, "%s: the name of a class holds no =", e.key)
		} else if readText(r, one, &read) {
			value.words = append(value.words, one.key+"="+read.words[0])
		}
	}
	return len(r.wrong) == before
}
