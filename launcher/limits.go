package launcher

import (
	"context"
	"fmt"
	"slices"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/limit"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// A ClassLimit is the limit of a class of jobs.
type ClassLimit struct {
	limit.Limit
	// Key returns the key of a job: jobs of the limit with equal keys share a gate. It must return at once.
	Key func(j *job.Job) (string, error)
}

// GateOf returns the name of the gate of a job with this payload, for a producer that must know where the gate
// is. As in a worker, a job whose key cannot be computed has the empty key.
func (c *ClassLimit) GateOf(payload string) (gate string) {
	key := ""
	defer func() {
		_ = recover()
		gate = c.Gate(key).Name
	}()
	if j, err := job.Parse(payload); err == nil {
		if text, err := c.Key(j); err == nil {
			key = text
		}
	}
	return gate
}

// addLimit records the limit of a class, and panics if another class declares it with another size.
func (l *Launcher) addLimit(class string, own *ClassLimit) {
	if own == nil {
		return
	}
	for _, other := range l.limits {
		if other.Name == own.Name && other != own.Limit {
			panic(fmt.Sprintf("belay: Handle %s: the limit %q has two sizes; declare it once and use it for both classes", class, own.Name))
		}
	}
	if !slices.Contains(l.limits, own.Limit) {
		l.limits = append(l.limits, own.Limit)
	}
}

// setGate makes the loop ask for the gates of jobs, as long as there are limits or rules of classes.
func (s *shard) setGate() {
	if len(s.launcher.limits) > 0 || s.rules.Any() {
		s.space.SetGate(s.gateOf)
	} else {
		s.space.SetGate(nil)
	}
}

// gateOf returns the gate of a job; nil for none. It runs in the loop's goroutine. An operator's rule for the
// class goes before the limit that the program declares. A job whose key cannot be computed has the empty key,
// because it must not run past the limit. If its arguments cannot be read, its run reports that.
func (s *shard) gateOf(j *job.Job) *lua.Gate {
	registered, _ := registeredIn(s.launcher.handlers, j)
	own := registered.class.Limit
	if gate := s.rules.Gate(j, own != nil); gate != nil || own == nil {
		return gate
	}
	gate := own.Gate(s.launcher.keyOf(own, j))
	return &gate
}

// keyOf returns the key of a job at its limit. Its caller is the loop's goroutine, which must not end.
func (l *Launcher) keyOf(own *ClassLimit, j *job.Job) string {
	key := ""
	panicked := retry.Contain(func() {
		plain, err := j, error(nil)
		if j.Compressed() {
			plain, err = j.Decompressed()
		}
		if err != nil {
			return
		}
		if text, err := own.Key(plain); err == nil {
			key = text
		}
	})
	if panicked != nil {
		l.logPanic("key of a limit", panicked, j)
	}
	return key
}

// readRules reads the rules of classes if marks have been read since: a change of a rule is one of their
// events. The rules are in force for the jobs that are taken from now on. It runs in one goroutine at a time.
func (s *shard) readRules(ctx context.Context) error {
	event := s.marks.Event()
	if event == s.rulesAt {
		return nil
	}
	changed, removed, err := s.rules.Read(ctx, s.lanes.chores, s.keys)
	if err != nil {
		return err
	}
	s.rulesAt = event
	s.setGate()
	for _, rule := range changed {
		s.log.Info("rule of a class is in force", "class", rule.Class, "rule", rule.Words())
	}
	for _, class := range removed {
		s.log.Info("rule of a class is over", "class", class)
	}
	return nil
}

// registerLimits registers the sizes of the limits: at the start, as those that are in force from now on
// unless an operator has set others, and later as still in use.
func (s *shard) registerLimits(ctx context.Context) error {
	act := lua.LimitSeen
	if s.overruled == nil {
		act = lua.LimitStarts
	}
	overruled := make(map[string]bool, len(s.launcher.limits))
	for chunk := range slices.Chunk(s.launcher.limits, lua.MaxItems) {
		changes := make([]lua.LimitChange, len(chunk))
		for i, own := range chunk {
			changes[i] = lua.LimitChange{Name: own.Name, Size: own.Size()}
		}
		words, err := s.keys.ChangeLimits(act, changes).Do(ctx, s.registers)
		if err != nil {
			return fmt.Errorf("register limits: %w", err)
		}
		for i, word := range words {
			overruled[chunk[i].Name] = word == lua.LimitKept
			if word == lua.LimitKept && !s.overruled[chunk[i].Name] {
				s.log.Info("size of a limit set by an operator or a newer process is in force",
					"limit", chunk[i].Name, "declared", chunk[i].Words())
			}
		}
	}
	s.overruled = overruled
	return nil
}
