package client

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
)

// A shardRule says which jobs go to a shard, one of several keyspaces.
type shardRule struct {
	name string
	// closed keeps jobs without a bound key away, and unbound those with one.
	closed, unbound bool
}

// shardNames is what the name of a shard may be: it becomes a part of keys, and of ids of batches.
var shardNames = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// A boundKey is something that must be in one place for all jobs with it, such as a lock: these jobs go to one
// shard, whichever program pushes them.
type boundKey struct {
	// kind names the key in errors.
	kind boundKind
	// text is the digest, the name of the gate, the ShardKey or the shard of the batch.
	text string
}

type boundKind string

const (
	boundLock  boundKind = "its unique lock"
	boundGate  boundKind = "its limit"
	boundBatch boundKind = "its batch"
	boundShard boundKind = "its ShardKey"
)

// ofNext returns the kind of a key that a next job has, of this class.
func (k boundKind) ofNext(class string) boundKind {
	return boundKind("the " + strings.TrimPrefix(string(k), "its ") + " of its next job " + class)
}

// A placement decides which shard a job goes to. Shards are meant by their index in the rules.
type placement struct {
	shards []shardRule
	open   []int // those for jobs without a bound key
	bound  []int // those for jobs with one
	turn   atomic.Uint64
}

// newPlacement returns the placement by these rules, or all their errors.
func newPlacement(shards []shardRule) (*placement, error) {
	p := &placement{shards: shards}
	p.turn.Store(rand.Uint64() / 2) // not all clients begin at the same shard
	var errs []error
	seen := make(map[string]bool, len(shards))
	for i, shard := range shards {
		switch {
		case !shardNames.MatchString(shard.name):
			errs = append(errs, fmt.Errorf("shard %q: a name has 1 to 32 of the letters a to z, digits and dashes", shard.name))
		case seen[shard.name]:
			errs = append(errs, fmt.Errorf("shard %q: the name is taken by an earlier one", shard.name))
		}
		seen[shard.name] = true
		if !shard.closed {
			p.open = append(p.open, i)
		}
		if !shard.unbound {
			p.bound = append(p.bound, i)
		}
	}
	if len(p.open) == 0 {
		errs = append(errs, errors.New("every shard is closed: one at least must take jobs"))
	}
	if len(p.bound) == 0 {
		errs = append(errs, errors.New("every shard is unbound: one at least must take jobs that are unique, limited or members of a batch"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// next returns the shard of a job without a bound key: the next open one in turn that is not left out, or the
// next one if all of them are.
func (p *placement) next(leftOut func(shard int) bool) int {
	for range p.open {
		if shard := p.open[p.turn.Add(1)%uint64(len(p.open))]; leftOut == nil || !leftOut(shard) {
			return shard
		}
	}
	return p.open[p.turn.Add(1)%uint64(len(p.open))]
}

// of returns the shard of a text: the one among the bound shards that draws the highest number for it. A shard
// that is added to them takes its part of the texts, and no text moves between two others.
func (p *placement) of(text string) int {
	best, highest := 0, ""
	for _, i := range p.bound {
		sum := sha256.Sum256([]byte(p.shards[i].name + "\x00" + text)) // no name contains the zero byte
		if number := string(sum[:]); number > highest {
			best, highest = i, number
		}
	}
	return best
}

// named returns the shard with a name.
func (p *placement) named(name string) (int, bool) {
	for i, shard := range p.shards {
		if shard.name == name {
			return i, true
		}
	}
	return 0, false
}

// ofBatch returns the shard of a batch: the one whose name, and a dot, its id begins with, or that of the id.
func (p *placement) ofBatch(id string) int {
	if name, _, dotted := strings.Cut(id, "."); dotted {
		if shard, found := p.named(name); found && !p.shards[shard].unbound {
			return shard
		}
	}
	return p.of(id)
}

// place returns the shard of a job with these bound keys, of which there is at least one. The job's ShardKey
// decides for its lock and its limit too. An error means that the keys are on different shards.
func (p *placement) place(keys ...boundKey) (int, error) {
	decides := keys
	if at := slices.IndexFunc(keys, func(key boundKey) bool { return key.kind == boundShard }); at >= 0 {
		decides = []boundKey{keys[at]}
		for _, key := range keys {
			// The members of a batch are where it is, whatever else they have.
			if key.kind != boundShard && key.kind != boundLock && key.kind != boundGate {
				decides = append(decides, key)
			}
		}
	}
	shard, err := p.shardOf(decides[0])
	if err != nil {
		return 0, err
	}
	for _, key := range decides[1:] {
		other, err := p.shardOf(key)
		if err != nil {
			return 0, err
		}
		if other != shard {
			return 0, fmt.Errorf("%s is on shard %q and %s on shard %q: set the same ShardKey for all jobs that share them",
				decides[0].kind, p.shards[shard].name, key.kind, p.shards[other].name)
		}
	}
	return shard, nil
}

func (p *placement) shardOf(key boundKey) (int, error) {
	if key.kind != boundBatch {
		return p.of(key.text), nil
	}
	shard, found := p.named(key.text)
	if !found {
		return 0, fmt.Errorf("its batch is on shard %q, which this client does not have", key.text)
	}
	return shard, nil
}
