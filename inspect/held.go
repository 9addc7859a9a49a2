package inspect

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A Held is why no process would start a job that waits.
type Held string

const (
	// HeldByClass means that the class of the job is paused: see SetClassRule.
	HeldByClass Held = "class_paused"
	// HeldByQueue means that the queue of the job is paused: see Pause.
	HeldByQueue Held = "queue_paused"
	// HeldWithoutConsumer means that no living process takes from the queue.
	HeldWithoutConsumer Held = "no_consumer"
)

// HeldWords returns in words why the job does not start, and the command that changes it; empty without Held.
func (f Found) HeldWords() string {
	switch f.Held {
	case HeldByClass:
		return "the class is paused (belay classes resume " + shellWord(f.Class) + ")"
	case HeldByQueue:
		return "the queue is paused (belay queues resume " + shellWord(f.Queue) + ")"
	case HeldWithoutConsumer:
		return "no process takes from it"
	}
	return ""
}

var bareWord = regexp.MustCompile(`^[\w.:/@%+][\w.:/@%+-]*$`)

// shellWord returns a name that others have chosen so that a shell takes it for one word.
func shellWord(name string) string {
	if bareWord.MatchString(name) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// HeldBy returns why no process would start a job that was found, if it waits in a queue, at a gate or
// quarantined; empty if a process may start it, and for all other jobs.
func (i *Inspector) HeldBy(ctx context.Context, f Found) (Held, error) {
	if f.Place != PlaceQueue && f.Place != PlaceWaiting && f.Place != PlaceQuarantined {
		return "", nil
	}
	replies := i.do(ctx, []driver.Call{
		driver.Command("HGET", i.keys.Classes(), f.Class),
		driver.Command("SISMEMBER", i.keys.Paused(), f.Queue),
	})
	for _, reply := range replies {
		if reply.Err != nil {
			return "", fmt.Errorf("read why %s waits: %w", f.JID, reply.Err)
		}
	}
	if text, ok := replies[0].Value.(string); ok {
		if rule, err := lua.ParseClassRule(f.Class, text); err == nil && Rule(rule.Kind()) == RulePause {
			return HeldByClass, nil
		}
	}
	if replies[1].Value == int64(1) {
		return HeldByQueue, nil
	}
	without, err := i.WithoutConsumer(ctx, []string{f.Queue})
	if err != nil || len(without) == 0 {
		return "", err
	}
	return HeldWithoutConsumer, nil
}
