package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/integration/chaosplan"
)

const (
	// sweepShare and stormShare are what the sweep, and each of the storms of unique jobs and of batches, have
	// of a time that is worth sharing. After maxStorm a storm has nothing new to say.
	sweepShare = 0.2
	stormShare = 0.1
	maxStorm   = 2 * time.Minute
	worth      = 150 * time.Second
	// span is how long a round's faults go on at most.
	span = 150 * time.Second
	// least is the shortest span in which every kind of job is pushed; brief is one that is too short for
	// default settings.
	least, brief = 10 * time.Second, 60 * time.Second
	// overhead and longOverhead are what a round takes besides, until everything has ended and been judged:
	// with fast settings, and with default ones, whose lives and retries are longer.
	overhead, longOverhead = 25 * time.Second, 60 * time.Second
)

// turns are the settings that the rounds have one after the other, as far as there is time for them.
var turns = [...]string{"default", "fast", "kills"}

// A plan is what a run does and for how long, made of the seed and the time alone. No clock is asked: a slow
// build, or a slow round, would make another plan of the same numbers.
type plan struct {
	seed    uint64
	lasting time.Duration
	shards  int // of the storms and the rounds; 0 is one keyspace without shards
	// sweep, and storm, how long each of the two storms is, are 0 when they are left out.
	sweep, storm time.Duration
	rounds       []round
}

// A round is one run of chaos.
type round struct {
	seed     uint64
	settings string
	span     time.Duration
}

// digest is that of the chaosplan, which is drawn for it: that takes a moment.
func (r round) digest() string {
	settings, _ := chaosplan.Named(r.settings, r.span)
	return chaosplan.New(r.seed, settings).Digest()
}

// newPlan shares out the time, which is whole seconds. There is one round at least, even if it takes longer.
func newPlan(seed uint64, lasting time.Duration, shards int) plan {
	p := plan{seed: seed, lasting: lasting, shards: shards}
	if lasting >= worth {
		if shards == 0 {
			p.sweep = share(lasting, sweepShare)
		}
		p.storm = min(share(lasting, stormShare), maxStorm)
	}
	for left := lasting - p.sweep - 2*p.storm; len(p.rounds) == 0 || left >= least+overhead; {
		r, takes := nextRound(seed, len(p.rounds), left)
		p.rounds = append(p.rounds, r)
		left -= takes
	}
	return p
}

func share(of time.Duration, part float64) time.Duration {
	return time.Duration(float64(of) * part).Round(time.Second)
}

// nextRound is the nth round in what is left, and how long it takes with all that belongs to it.
func nextRound(seed uint64, n int, left time.Duration) (r round, takes time.Duration) {
	r = round{seed: seed + uint64(n), settings: turns[n%len(turns)]}
	besides := longOverhead
	if r.settings == "fast" || left-besides < brief {
		r.settings, besides = "fast", overhead
	}
	r.span = min(max(left-besides, least), span)
	return r, r.span + besides
}

// leftOut names what there is no time for.
func (p plan) leftOut() []string {
	var out []string
	switch {
	case p.storm == 0:
		out = append(out, fmt.Sprintf("the sweep and the storms (they are in %g minutes and more)", worth.Minutes()))
	case p.sweep == 0:
		out = append(out, "the sweep (its plays are of one keyspace)")
	}
	for _, name := range turns {
		if !slices.ContainsFunc(p.rounds, func(r round) bool { return r.settings == name }) {
			out = append(out, "rounds with "+name+" settings")
		}
	}
	return out
}

// describe returns the plan in lines, and a short name for all that is in it: equal plans have equal digests.
func (p plan) describe() (text, digest string) {
	var lines strings.Builder
	if p.shards > 0 {
		fmt.Fprintf(&lines, "  over %d shards\n", p.shards)
	}
	if p.sweep > 0 {
		fmt.Fprintf(&lines, "  sweep: seed %d, %v\n", p.seed, p.sweep)
	}
	if p.storm > 0 {
		fmt.Fprintf(&lines, "  storms of unique jobs and of batches: seed %d, %v each\n", p.seed, p.storm)
	}
	for n, r := range p.rounds {
		fmt.Fprintf(&lines, "  round %d: seed %d, plan %s, %s settings, %v of faults\n", n+1, r.seed, r.digest(), r.settings, r.span)
	}
	if out := p.leftOut(); out != nil {
		fmt.Fprintf(&lines, "  left out: %s\n", strings.Join(out, ", "))
	}
	sum := sha256.Sum256([]byte(lines.String()))
	return lines.String(), hex.EncodeToString(sum[:6])
}
