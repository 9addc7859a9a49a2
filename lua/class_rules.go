package lua

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

// ClassRules are the rules of classes that this process has read. A change of a rule is an event of the marks,
// so a heartbeat reports it (see Marks), and Read reads all rules. The zero ClassRules is empty, and asking it
// costs nothing.
type ClassRules struct {
	// known is replaced, and never changed; nil if there is no rule.
	known atomic.Pointer[map[string]classGate]
}

type classGate struct {
	rule ClassRule
	gate Gate
}

// Read reads all rules. It returns the rules that are new or changed, and the classes that have none any more.
// It is for one goroutine at a time.
func (c *ClassRules) Read(ctx context.Context, client driver.Client, keys Keys) (changed []ClassRule, removed []string, err error) {
	read, before := make(map[string]classGate), c.all()
	for from := FirstPage; ; {
		page, err := FieldPage(keys.Classes(), from).Do(ctx, client)
		if err != nil {
			return nil, nil, fmt.Errorf("read the rules of classes: %w", err)
		}
		for at := 0; at+1 < len(page.Pairs); at += 2 {
			rule, err := ParseClassRule(page.Pairs[at], page.Pairs[at+1])
			if err != nil {
				continue // a rule of a later version of Belay
			}
			if had, known := before[rule.Class]; !known || had.rule != rule {
				changed = append(changed, rule)
			}
			read[rule.Class] = classGate{rule, rule.Gate()}
		}
		if from = page.Next; from == LastPage {
			break
		}
	}
	for class := range before {
		if _, left := read[class]; !left {
			removed = append(removed, class)
		}
	}
	if len(read) == 0 {
		c.known.Store(nil)
	} else {
		c.known.Store(&read)
	}
	return changed, removed, nil
}

func (c *ClassRules) all() map[string]classGate {
	if known := c.known.Load(); known != nil {
		return *known
	}
	return nil
}

// Any reports whether there is a rule.
func (c *ClassRules) Any() bool { return c.known.Load() != nil }

// Gate returns the gate of a job whose class has a rule; nil for another one. If the rule is gone by the time
// at which the job asks its gate, the job starts; it waits instead if the class is limited by its program,
// because it must not start past that limit.
func (c *ClassRules) Gate(j *job.Job, limited bool) *Gate {
	found, ruled := c.of(j)
	if !ruled {
		return nil
	}
	if limited && !found.rule.Drop {
		found.gate.Size.Paused = true
	}
	return &found.gate
}

// Drops reports whether a rule ends the job before its start.
func (c *ClassRules) Drops(j *job.Job) bool {
	found, _ := c.of(j)
	return found.rule.Drop
}

// of returns the rule of a job's class: of the class that it wraps, if it wraps one, as operators see it.
func (c *ClassRules) of(j *job.Job) (found classGate, ruled bool) {
	if known := c.known.Load(); known != nil {
		found, ruled = (*known)[cmp.Or(j.Wrapped(), j.Class())]
	}
	return found, ruled
}
