package oracle

import (
	"slices"
	"strconv"
	"strings"
)

// A jobState is the hash of a job's state, as far as it matters here. crashes is how many there had been when
// its cursor last advanced. cursor is empty when there is none.
type jobState struct {
	created, cursor  string
	version, crashes int
}

// stateOf is whose state a key is.
func (k *keyspace) stateOf(key string) (jid string, ok bool) {
	return strings.CutPrefix(key, k.prefix+"it-")
}

// writeState takes in a write of a job's state, and judges it. One without a version is a Ruby process' own.
func (s *stride) writeState(jid string, c []string) {
	was := s.k.states[jid]
	now, versioned := was, false
	for at := 2; at+1 < len(c); at += 2 {
		n, _ := strconv.Atoi(c[at+1])
		switch c[at] {
		case "belay_version":
			now.version, versioned = n, true
		case "belay_created":
			now.created = c[at+1]
		case "belay_crashes":
			now.crashes = n
		case "c":
			now.cursor = c[at+1]
		}
	}
	s.k.states[jid] = now
	of := s.k.jobs["jid "+jid]
	switch {
	case !versioned || s.base:
	case now.created == was.created && now.version <= was.version:
		s.violate(of, States, "its state goes from version %d to %d", was.version, now.version)
	case now.created == was.created && falls(was.cursor, now.cursor):
		s.violate(of, States, "its cursor goes back from %s to %s", was.cursor, now.cursor)
	case of == nil || !s.inHand(of):
		s.violate(of, States, "its state is written, and no process has it in hand")
	}
}

// falls reports whether a cursor that is a number gets lower. Jobs of tests count up.
func falls(was, now string) bool {
	from, err1 := strconv.Atoi(was)
	to, err2 := strconv.Atoi(now)
	return err1 == nil && err2 == nil && to < from
}

// inHand reports whether a process has a job, or had it as the step began. One that dies unread, because of its
// size, may have been due.
func (s *stride) inHand(of *subject) bool {
	held := func(place Place) bool { return place == Working || place == QuarantineRun }
	if of.trip != nil {
		dies := slices.ContainsFunc(of.trip.ins, func(l leg) bool { return l.place() == Dead })
		return slices.ContainsFunc(of.trip.outs, func(l leg) bool { return dies || held(l.place()) })
	}
	return of.copies > 0 && held(of.edge.To)
}

// loseFields takes in HDEL. Without the count of crashes, all of them count.
func (s *stride) loseFields(jid string, names []string) {
	for _, name := range names {
		state := s.k.states[jid]
		switch name {
		case "belay_crashes":
			state.crashes = 0
		case "c":
			state.cursor = ""
		}
		s.k.states[jid] = state
	}
}

// requireNoCursor holds that a job that has ended leaves no cursor; a tracked one leaves its result.
func (c *crossing) requireNoCursor() {
	if state := c.k.states[c.of.jid]; state.version > 0 && state.cursor != "" && valueOf(c.before(), "created_at") == state.created {
		c.fail(States, "it has ended, and its cursor stays at version %d", state.version)
	}
}

// forgives reports whether a change of a payload is that the crashes from before its cursor advanced do not
// count any more.
func (c *crossing) forgives(name string, ch change) bool {
	return (name == "interrupted_count" || name == "interrupted_at") && ch.new == "" && c.k.states[c.of.jid].version > 0
}
