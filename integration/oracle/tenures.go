package oracle

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// TenureKey begins the name of the key by which a test marks, on a node of a Redis Cluster, that the node
// begins to serve a keyspace, or that the keyspace is about to leave it: SET it to the values of [Begins] and
// [Ends]. The rest of the name must make it a key of a slot that stays on the node.
const TenureKey = "oracle-tenure"

// Begins is the value that marks that a node serves the keyspace of a prefix from now on, as its nth node, from
// 1. It is set before the node gets the slot.
func Begins(prefix string, n int) string { return strconv.Itoa(n) + " begins " + prefix }

// Ends is the value that marks that the slot of the keyspace is about to leave its nth node. It is set before
// the first key does.
func Ends(prefix string, n int) string { return strconv.Itoa(n) + " ends " + prefix }

// ReplayTenures is Replay for the keyspaces of some prefixes, whose slots moved from node to node of a Redis
// Cluster: one after the other, each by the steps of the nodes that served it. dirs are the directories of a
// server for each primary that has everything which the primary ever wrote down. The test has marked the
// nodes' tenures. What moves a slot is no step: RESTORE-ASKING, by which a node gets a key, and the DEL by
// which the other one drops it.
func ReplayTenures(dirs, prefixes []string, options ...Option) (*Report, error) {
	options = append([]Option{Prefixes()}, options...)
	r := newReplay(options)
	r.report.open, r.report.options = func() (source, error) { return &succession{dirs: dirs, prefixes: prefixes}, nil }, options
	return r.run()
}

// A succession is the histories of several keyspaces, one after the other.
type succession struct {
	dirs, prefixes []string
	now            *tenures
	steps          int
	truncated      string
}

// Next returns the next step; io.EOF after the last.
func (s *succession) Next() (step Step, err error) {
	for {
		if s.now == nil {
			if len(s.prefixes) == 0 {
				return Step{}, io.EOF
			}
			if s.now, err = openTenures(s.dirs, s.prefixes[0]); err != nil {
				return Step{}, err
			}
			s.prefixes = s.prefixes[1:]
		}
		step, err = s.now.Next()
		if !errors.Is(err, io.EOF) {
			s.steps++
			step.Number = s.steps
			return step, err
		}
		if s.truncated == "" {
			s.truncated = s.now.truncated()
		}
		if err := s.Close(); err != nil {
			return Step{}, err
		}
	}
}

// Truncated says how one of the logs ends, if it ends within a step.
func (s *succession) Truncated() string { return s.truncated }

// Close closes the logs that are read.
func (s *succession) Close() (err error) {
	if s.now != nil {
		err = s.now.Close()
	}
	s.now = nil
	return err
}

// tenures reads the logs of several nodes as one: each node's steps of the time in which it served the
// keyspace.
type tenures struct {
	prefix  string
	nodes   []*node
	serving *node // nil between two tenures
	n       int   // the tenure that is read, or that was read last
}

// A node is one log, read up to the marker of its next tenure.
type node struct {
	*Log
	prefix  string
	begins  int // the tenure whose marker was read last; 0 when the log has no other
	leaving bool
}

func openTenures(dirs []string, prefix string) (*tenures, error) {
	t := &tenures{prefix: prefix}
	for _, dir := range dirs {
		log, err := Open(dir)
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		n := &node{Log: log, prefix: prefix}
		t.nodes = append(t.nodes, n)
		if err := n.advance(Step{}); err != nil {
			return nil, errors.Join(err, t.Close())
		}
	}
	return t, nil
}

// Next returns the next step; io.EOF after the last.
func (t *tenures) Next() (Step, error) {
	for {
		if t.serving == nil && !t.turn() {
			return Step{}, io.EOF
		}
		step, err := t.serving.Next()
		switch {
		case errors.Is(err, io.EOF):
			t.serving.begins, t.serving = 0, nil
		case err != nil:
			return Step{}, err
		case t.serving.leaving && removal(&step):
		case alone(&step, "RESTORE-ASKING"): // the slot comes back
			if err := t.serving.advance(step); err != nil {
				return Step{}, err
			}
			t.serving = nil
		case marker(&step) == Ends(t.prefix, t.n):
			t.serving.leaving = true
		default:
			return step, nil
		}
	}
}

// turn begins to read the next tenure, and reports whether there is one.
func (t *tenures) turn() bool {
	t.n++
	for _, n := range t.nodes {
		if n.begins == t.n {
			t.serving, n.leaving = n, false
			return true
		}
	}
	return false
}

// Next returns the next step that is about the keyspace; io.EOF after the last. Scripts have keys of one
// keyspace.
func (n *node) Next() (Step, error) {
	for {
		step, err := n.Log.Next()
		if err != nil || slices.ContainsFunc(step.Commands, n.concerns) {
			return step, err
		}
	}
}

// concerns reports whether a command has a key of the keyspace, or marks a tenure of it.
func (n *node) concerns(c []string) bool {
	if len(c) < 2 {
		return true
	}
	if strings.HasPrefix(c[1], TenureKey) {
		return strings.HasSuffix(c[len(c)-1], " "+n.prefix)
	}
	return n.prefix == "" || strings.HasPrefix(c[1], n.prefix+":")
}

// advance reads up to the marker of the next tenure, from a step that begins to bring it. There may be
// nothing but the keys that come for it, and of those the ones that expire before.
func (n *node) advance(step Step) (err error) {
	expiring := make(map[string]bool)
	for ; err == nil; step, err = n.Next() {
		number, begins := strings.CutSuffix(marker(&step), Begins(n.prefix, 0)[1:])
		switch {
		case begins:
			if n.begins, err = strconv.Atoi(number); err != nil {
				return fmt.Errorf("unknown value of %s: %q", TenureKey, marker(&step))
			}
			return nil
		case len(step.Commands) == 0: // before the first
		case alone(&step, "RESTORE-ASKING"):
			expiring[step.Commands[0][1]] = step.Commands[0][2] != "0"
		case removal(&step) && expiring[step.Commands[0][1]]:
		default:
			return fmt.Errorf("a node of the Cluster that does not serve the keyspace %s writes: %s", n.prefix, describe(step.Commands, ""))
		}
	}
	n.begins = 0
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// alone reports whether a step is this one command.
func alone(step *Step, name string) bool {
	return len(step.Commands) == 1 && step.Commands[0][0] == name
}

// removal reports whether a step removes keys that have moved away or expired: with DEL in Redis, and with
// UNLINK in Valkey, whose lazyfree settings are on by default.
func removal(step *Step) bool { return alone(step, "DEL") || alone(step, "UNLINK") }

// marker is the value of a TenureKey that a step sets; "" for any other step.
func marker(step *Step) string {
	if alone(step, "SET") && strings.HasPrefix(step.Commands[0][1], TenureKey) {
		return step.Commands[0][2]
	}
	return ""
}

// truncated says how one of the logs ends, if it ends within a step.
func (t *tenures) truncated() string {
	for _, n := range t.nodes {
		if text := n.Truncated(); text != "" {
			return text
		}
	}
	return ""
}

// Close closes the logs.
func (t *tenures) Close() (err error) {
	for _, n := range t.nodes {
		err = errors.Join(err, n.Close())
	}
	return err
}
