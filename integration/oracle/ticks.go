package oracle

import (
	"encoding/json"
	"strings"
	"time"
)

// A tick is what the payload of a periodic job's job says, by a reader of this package's own.
type tick struct {
	Name   string `json:"name"`
	At     string `json:"at"`
	Manual bool   `json:"manual"`
}

// tickOf is the tick that a job was enqueued for; ok is false for any other job, and for one that an operator
// asked for.
func tickOf(text string) (t tick, ok bool) {
	if !strings.Contains(text, "belay_tick") {
		return t, false
	}
	ok = json.Unmarshal([]byte(valueOf(text, "belay_tick")), &t) == nil && t.At != "" && !t.Manual
	return t, ok
}

// notes takes in what the step says of last ticks.
func (s *stride) notes(c []string) {
	if s.noted == nil {
		s.noted = make(map[string]string)
	}
	for at := 2; at+1 < len(c); at += 2 {
		name, value := c[at], c[at+1]
		s.settles(nil, "periodic job", name)
		s.noted[name] = value
		if strings.HasPrefix(value, "since ") && s.k.clockMoves {
			delete(s.k.ticks, name) // a clock was set back, and the ticks of that time come again
		}
	}
}

// requireTick holds that the job of a tick comes in the step that notes the tick, not before its time, once,
// and after those of earlier ticks.
func (c *crossing) requireTick() {
	t, ok := tickOf(c.after())
	if !ok {
		return
	}
	if noted := c.noted[t.Name]; noted != t.At {
		c.fail(Tick, "its tick %s of %q is not noted in its step, but %q", t.At, t.Name, noted)
	}
	at, err := time.Parse(time.RFC3339, t.At)
	if err != nil {
		c.fail(Tick, "its tick %q is no time", t.At)
		return
	}
	if !c.At.IsZero() && at.After(c.At) {
		c.fail(Early, "its tick %s of %q has not come", t.At, t.Name)
	}
	if last, known := c.k.ticks[t.Name]; known && !at.After(last) {
		c.fail(Tick, "its tick %s of %q comes twice, or after a later one", t.At, t.Name)
	}
	c.k.ticks[t.Name] = at
}
