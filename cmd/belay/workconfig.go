package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/belayq/belay"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/retry"
)

// config converts the flags, and returns all mistakes in them.
func (f *workFlags) config() (launcher.Config, error) {
	cfg := launcher.Config{
		Concurrency: f.concurrency, Beat: f.heartbeat, TTL: f.ttl, Janitor: f.janitor, Poll: f.poll, PollWait: f.pollWait, ShutdownTimeout: f.shutdown,
		MaxInterruptions: f.maxInterruptions, PayloadLimit: f.payloadLimit, Name: f.name, Tag: f.tag, Labels: f.labels,
	}
	if f.shutdown == 0 {
		cfg.ShutdownTimeout = -1 // none; a Config's 0 is its default
	}
	var badQueues, badPolicy error
	cfg.Queues, badQueues = parseQueues(f.queues, "--queue")
	cfg.Retry, badPolicy = f.policy()
	return cfg, errors.Join(badQueues, badPolicy, f.checkZeros(), f.log.check())
}

// checkZeros refuses zeros that would mean the default in a Config.
func (f *workFlags) checkZeros() error {
	var wrong []error
	for _, name := range []string{"concurrency", "heartbeat", "ttl", "janitor", "poll", "max-interruptions", "payload-limit"} {
		flag := f.set.Lookup(name)
		if (flag.Changed || f.conf.said(name)) && strings.TrimSuffix(flag.Value.String(), "s") == "0" {
			wrong = append(wrong, fmt.Errorf("--%s 0: it must be more; leave it out for the default", name))
		}
	}
	if f.shutdown < 0 {
		wrong = append(wrong, fmt.Errorf("--shutdown-timeout %v: it must not be negative", f.shutdown))
	}
	return errors.Join(wrong...)
}

func (f *workFlags) policy() (retry.Policy, error) {
	formula, badFormula := retry.FormulaByName(f.retryFormula)
	policy := retry.Policy{Formula: formula, MaxRetries: f.maxRetries}
	var wrong []error
	switch {
	case f.maxRetries < 0:
		wrong = append(wrong, fmt.Errorf("--max-retries %d: it must not be negative", f.maxRetries))
	case f.maxRetries == 0:
		policy.MaxRetries = -1 // none; a Policy's 0 is its default
	}
	switch f.timestamps {
	case "seconds":
		policy.Unit = job.Seconds
	case "milliseconds":
		policy.Unit = job.Millis
	default:
		wrong = append(wrong, fmt.Errorf("--timestamps %q: it is seconds or milliseconds", f.timestamps))
	}
	return policy, errors.Join(append(wrong, badFormula)...)
}

// clientConfig and serverConfig return what the library is configured with.
func clientConfig(cfg launcher.Config) *belay.ClientConfig {
	return &belay.ClientConfig{Prefix: cfg.Prefix, PayloadLimit: cfg.PayloadLimit, Unit: cfg.Retry.Unit}
}

func serverConfig(cfg launcher.Config, capsules []capsuleSetting) (belay.ServerConfig, error) {
	server := belay.ServerConfig{
		Queues: cfg.Queues, Concurrency: cfg.Concurrency, Heartbeat: cfg.Beat, TTL: cfg.TTL, PollInterval: cfg.Poll, PollWait: cfg.PollWait,
		JanitorInterval: cfg.Janitor, ShutdownTimeout: cfg.ShutdownTimeout, MaxInterruptions: cfg.MaxInterruptions,
		Name: cfg.Name, Tag: cfg.Tag, Labels: cfg.Labels, Retries: cfg.Retry.MaxRetries, RetryFormula: cfg.Retry.Formula,
		RedactError: withoutWords,
	}
	var wrong []error
	for _, its := range capsules {
		queues, err := parseQueues(its.queues, "capsule "+its.name)
		wrong = append(wrong, err)
		server.Capsules = append(server.Capsules, belay.Capsule{Name: its.name, Queues: queues, Concurrency: its.concurrency})
	}
	return server, errors.Join(wrong...)
}

// checkQueueWords refuses queue names with white space on the command line: -q "a b" probably means two
// queues, and the worker would wait for ever on one queue of that name. Ruby allows such names; use a
// configuration file for them.
func checkQueueWords(specs []string) error {
	var wrong []error
	for _, spec := range specs {
		if words := strings.Fields(spec); len(words) > 1 || len(words) == 1 && words[0] != spec {
			wrong = append(wrong, fmt.Errorf("--queue %q: a name with white space; for several queues give each its own: -q %s (a queue of just this name goes into a configuration file)",
				spec, strings.Join(words, " -q ")))
		}
	}
	return errors.Join(wrong...)
}

// parseQueues reads the values of -q. A comma without a weight is an error: "-q a,b" probably means two queues.
func parseQueues(specs []string, of string) ([]fetch.Queue, error) {
	var queues []fetch.Queue
	var wrong []error
	for _, spec := range specs {
		name, weight, weighted := strings.Cut(spec, ",")
		queue := fetch.Queue{Name: name}
		if weighted {
			var err error
			if queue.Weight, err = strconv.Atoi(weight); err != nil || queue.Weight < 1 {
				wrong = append(wrong, fmt.Errorf("%s %s: it is NAME or NAME,WEIGHT with a weight of 1 or more; for more queues give -q again", of, spec))
				continue
			}
		}
		queues = append(queues, queue)
	}
	return queues, errors.Join(wrong...)
}
