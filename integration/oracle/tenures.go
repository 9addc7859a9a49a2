package oracle

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// TenureKey begins the name of the key by which a test marks, on a node of a Redis Cluster, that the node
// begins to serve a keyspace, or that the keyspace is about to leave it: SET it to the values of [Begins] and
// [Ends]. The rest of the name must make it a key of a slot that stays on the node.
const TenureKey = "oracle-tenure"

// Begins is the value that marks that a node serves the keyspace from now on, as the nth node, from 1. It is
// set before the node gets the slot.
func Begins(n int) string { return strconv.Itoa(n) + " begins" }

// Ends is the value that marks that the slot is about to leave the nth node. It is set before the first key
// does.
func Ends(n int) string { return strconv.Itoa(n) + " ends" }

// ReplayTenures is Replay for a keyspace whose slot moved from node to node of a Redis Cluster. dirs are the
// directories of a server of each shard that has everything which the shard ever wrote down. The test has
// marked the nodes' tenures. What moves a slot is no step: RESTORE-ASKING, by which a node gets a key, and
// the DEL by which the other one drops it.
func ReplayTenures(dirs []string, options ...Option) (*Report, error) {
	r := newReplay(options)
	r.report.open, r.report.options = func() (source, error) { return openTenures(dirs) }, options
	return r.run()
}

// tenures reads the logs of several nodes as one: each node's steps of the time in which it served the
// keyspace.
type tenures struct {
	nodes   []*node
	serving *node // nil between two tenures
	n       int   // the tenure that is read, or that was read last
	steps   int
}

// A node is one log, read up to the marker of its next tenure.
type node struct {
	*Log
	begins  int // the tenure whose marker was read last; 0 when the log has no other
	leaving bool
}

func openTenures(dirs []string) (*tenures, error) {
	t := &tenures{}
	for _, dir := range dirs {
		log, err := Open(dir)
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		n := &node{Log: log}
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
		case marker(&step) == Ends(t.n):
			t.serving.leaving = true
		default:
			t.steps++
			step.Number = t.steps
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

// advance reads up to the marker of the next tenure, from a step that begins to bring it. There may be
// nothing but the keys that come for it, and of those the ones that expire before.
func (n *node) advance(step Step) (err error) {
	expiring := make(map[string]bool)
	for ; err == nil; step, err = n.Next() {
		number, begins := strings.CutSuffix(marker(&step), " begins")
		switch {
		case begins:
			if n.begins, err = strconv.Atoi(number); err != nil {
				return fmt.Errorf("unknown value of %s: %q", TenureKey, number)
			}
			return nil
		case len(step.Commands) == 0: // before the first
		case alone(&step, "RESTORE-ASKING"):
			expiring[step.Commands[0][1]] = step.Commands[0][2] != "0"
		case removal(&step) && expiring[step.Commands[0][1]]:
		default:
			return fmt.Errorf("a node of the Cluster that does not serve the keyspace writes: %s", describe(step.Commands, ""))
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

// Truncated says how one of the logs ends, if it ends within a step.
func (t *tenures) Truncated() (text string) {
	for _, n := range t.nodes {
		if text == "" {
			text = n.Truncated()
		}
	}
	return text
}

// Close closes the logs.
func (t *tenures) Close() (err error) {
	for _, n := range t.nodes {
		err = errors.Join(err, n.Close())
	}
	return err
}
