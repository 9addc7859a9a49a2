package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// options are the flags of every measure.
type options struct {
	jobs, concurrency, repeat int
	peers                     []string
	client, redis, out        string
	profile                   string
	full, install             bool
	// given are the names of the flags that the command line has.
	given map[string]bool
}

// defaultConcurrency is Belay's in measures without a concurrency of their own, and that at which peers run
// besides their best.
const defaultConcurrency = 100

func (o *options) addTo(flags *pflag.FlagSet) {
	flags.IntVar(&o.jobs, "jobs", 0, "number of `jobs` for Belay; without --full a slow peer gets fewer, enough for some seconds (default: the measure's own)")
	flags.IntVar(&o.concurrency, "concurrency", 0, "how many jobs run at once, in every system (default: the measure's own, among them the best for each system)")
	flags.StringSliceVar(&o.peers, "peers", peerNames(), "`peers` to measure beside Belay, or none")
	flags.BoolVar(&o.install, "install", false, "install missing runtimes of peers, as root with apt-get; without it such a peer is left out")
	flags.StringVar(&o.client, "client", "", "Belay's Redis `client`: go-redis or rueidis (default both)")
	flags.StringVar(&o.redis, "redis", "", "`URL` of a Redis with an empty database, which is emptied between runs, or a list of shards, 'NAME=URL NAME=URL', for Belay alone (default: start one)")
	flags.StringVar(&o.out, "out", "", "folder for report.md and each measure's .json and .svg; report.md keeps the sections of other measures there")
	flags.BoolVar(&o.full, "full", false, "fill every row: more repeats, more jobs; takes hours, not minutes")
	flags.IntVar(&o.repeat, "repeat", 0, "number of runs of each system (default: the measure's own)")
	flags.StringVar(&o.profile, "profile", "", "write a CPU profile of Belay's last run to this `file`")
}

// isGiven records which flags the command line has.
func (o *options) isGiven(flags *pflag.FlagSet) {
	o.given = map[string]bool{}
	flags.Visit(func(flag *pflag.Flag) { o.given[flag.Name] = true })
}

// refuse returns an error for each given flag that a measure does not use. Ignored in silence, it would seem to
// have had an effect.
func (o *options) refuse(measure string, unused []string) error {
	var errs []error
	for _, flag := range unused {
		if o.given[flag] && (flag != "peers" || !slices.Equal(o.peers, []string{"none"})) {
			errs = append(errs, fmt.Errorf("--%s: %s does not use it", flag, measure))
		}
	}
	return errors.Join(errs...)
}

// check returns all mistakes in the flags at once. It makes the folder now, not after the runs, so that a wrong
// name costs nothing.
func (o *options) check() error {
	var errs []error
	// A larger number is a slip of the hand, and memory would run out. A job is some hundred bytes
	// in Redis, and a few in each process.
	for _, n := range []struct {
		flag        string
		value, most int
	}{{"jobs", o.jobs, 100_000_000}, {"concurrency", o.concurrency, 100_000}, {"repeat", o.repeat, 1000}} {
		switch {
		case n.value < 0 || n.value == 0 && o.given[n.flag]:
			errs = append(errs, fmt.Errorf("--%s %d: it must be at least 1", n.flag, n.value))
		case n.value > n.most:
			errs = append(errs, fmt.Errorf("--%s %d: it must be at most %d", n.flag, n.value, n.most))
		}
	}
	if !slices.Contains([]string{"", "go-redis", "rueidis"}, o.client) {
		errs = append(errs, fmt.Errorf("--client %q: it must be go-redis or rueidis", o.client))
	}
	if slices.Equal(o.peers, []string{"none"}) {
		o.peers = nil
	}
	for _, name := range o.peers {
		if !slices.Contains(peerNames(), name) {
			errs = append(errs, fmt.Errorf("--peers %q: it must be none, or some of %s", name, strings.Join(peerNames(), ",")))
		}
	}
	if o.out != "" && len(errs) == 0 {
		errs = append(errs, os.MkdirAll(o.out, 0o755))
	}
	return errors.Join(errs...)
}

// clients returns Belay's clients to measure.
func (o *options) clients() []string {
	if o.client != "" {
		return []string{o.client}
	}
	return []string{"go-redis", "rueidis"}
}

// repeats returns the number of runs.
func (o *options) repeats(sample, full int) int { return o.pick(o.repeat, sample, full) }

// size returns Belay's number of jobs.
func (o *options) size(sample, full int) int { return o.pick(o.jobs, sample, full) }

// peerSize returns the number of jobs for a peer. Slow peers get few: with sample jobs the slowest takes some
// seconds.
func (o *options) peerSize(c contender, sample, full int) int {
	sample *= max(1, c.times)
	jobs := o.pick(o.jobs, sample, full)
	if o.full {
		return jobs
	}
	return min(jobs, sample)
}

func (o *options) pick(given, sample, full int) int {
	switch {
	case given > 0:
		return given
	case o.full:
		return full
	}
	return sample
}
