package oracle

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A batch is what is known of a batch's keys.
type batch struct {
	id string
	// known says that its hash exists. total is what the hash says, and stored how many members ever joined.
	known         bool
	total, stored int
	// listed says that the set of all batches has it, and until when, in seconds, it is kept. succeededAt is
	// the second in which its success was called.
	listed             bool
	until, succeededAt float64
	// sets are pending, failed, dead and nested.
	sets map[string]map[string]bool
	// callbacks are the texts of its callbacks, by what calls them, and called those that were called.
	callbacks map[string]string
	called    map[string]bool
	// now are those that are called in the step that is judged.
	now []string
}

// notSealed is what is pending until a batch is sealed.
const notSealed = "not sealed"

// batchOf is the batch whose key this is, and which of its keys: "" for the hash.
func (k *keyspace) batchOf(key string) (of *batch, set string, ok bool) {
	name, ok := strings.CutPrefix(key, k.prefix+"belay:batch:")
	if !ok {
		return nil, "", false
	}
	id, set, _ := strings.Cut(name, ":")
	if k.batches[id] == nil {
		k.batches[id] = &batch{
			id: id, callbacks: make(map[string]string), called: make(map[string]bool),
			sets: map[string]map[string]bool{"pending": {}, "failed": {}, "dead": {}, "nested": {}},
		}
	}
	return k.batches[id], set, true
}

// members takes in SADD and SREM.
func (s *stride) members(c []string) {
	of, set, ok := s.k.batchOf(c[1])
	if !ok {
		s.overwrite(c)
		return
	}
	s.alter(of)
	for _, jid := range c[2:] {
		switch {
		case c[0] == "SREM":
			delete(of.sets[set], jid)
			continue
		case set == "pending" && jid != notSealed && !of.sets[set][jid]:
			of.stored++
		}
		of.sets[set][jid] = true
	}
}

// writeBatch takes in a write of a batch's hash.
func (s *stride) writeBatch(of *batch, c []string) {
	s.alter(of)
	of.known = true
	for at := 2; at+1 < len(c); at += 2 {
		name, value := c[at], c[at+1]
		what, isCall := strings.CutSuffix(name, "_at")
		callback, isCallback := strings.CutPrefix(name, "on_")
		switch {
		case name == "total" && c[0] == "HINCRBY":
			n, _ := strconv.Atoi(value)
			of.total += n
		case name == "total":
			of.total, _ = strconv.Atoi(value)
			of.stored = of.total // a rewritten log does not name the members that have ended
		case isCallback:
			of.callbacks[callback] = value
		case isCall:
			if of.called[what] && !s.base {
				s.violate(nil, Batches, "%s of batch %s is called twice", what, of.id)
			}
			of.called[what] = true
			of.now = append(of.now, what)
			if what == "success" {
				of.succeededAt = scoreOf(value) / 1000
			}
		}
	}
}

func (s *stride) alter(of *batch) {
	s.settles(nil, "batch", of.id)
	if !slices.Contains(s.altered, of) {
		s.altered = append(s.altered, of)
	}
}

// dropBatch takes in the end of one of a batch's keys.
func (s *stride) dropBatch(of *batch, set string) {
	s.alter(of)
	if set == "" {
		of.known = false
		return
	}
	clear(of.sets[set])
}

// keepBatch takes in until when a batch is kept, and unlistBatch that it is not.
func (s *stride) keepBatch(id string, until float64) {
	of, _, _ := s.k.batchOf(s.k.keys.Batch(id))
	s.alter(of)
	of.listed, of.until = true, until
}

func (s *stride) unlistBatch(id string) {
	of, _, _ := s.k.batchOf(s.k.keys.Batch(id))
	s.alter(of)
	of.listed = false
}

// judgeBatches holds that batches count in the step of what they count, and that the step which decides a
// callback stores it.
func (s *stride) judgeBatches() {
	for _, of := range s.altered {
		switch {
		case s.k.batches[of.id] != of: // FLUSHALL
		case of.known && !s.base:
			s.judgeBatch(of)
		case !of.known && !s.base:
			s.judgeGone(of)
		}
		of.now = nil
	}
	if s.base {
		return
	}
	for _, of := range s.touched {
		s.judgeMember(of)
	}
}

func (s *stride) judgeBatch(of *batch) {
	pending, failed, dead := of.sets["pending"], of.sets["failed"], of.sets["dead"]
	for jid := range failed {
		if !pending[jid] {
			s.violate(s.k.jobs["jid "+jid], Batches, "in batch %s it has failed, and is not pending", of.id)
		}
	}
	for jid := range dead {
		if !failed[jid] {
			s.violate(s.k.jobs["jid "+jid], Batches, "in batch %s it is dead, and has not failed", of.id)
		}
	}
	for jid := range of.sets["nested"] {
		if pending[jid] && !failed[jid] {
			s.violate(s.k.jobs["jid "+jid], Batches, "in batch %s it ends a nested one, and does not count as failed", of.id)
		}
	}
	if of.total != of.stored {
		s.violate(nil, Batches, "batch %s has %d members in all, and %d were stored", of.id, of.total, of.stored)
	}
	const day = 86400
	switch {
	case !of.listed:
		s.violate(nil, Batches, "batch %s is not listed, so it would stay for ever", of.id)
	case of.called["success"] && of.until > of.succeededAt+day:
		s.violate(nil, Batches, "batch %s has succeeded, and is kept until %.0f, which is more than a day", of.id, of.until)
	}
	for what, due := range map[string]bool{"complete": maps.Equal(pending, failed), "success": len(pending) == 0, "death": len(dead) > 0} {
		now := slices.Contains(of.now, what)
		switch {
		case due && !of.called[what]:
			s.violate(nil, Batches, "%s of batch %s is decided, and not called", what, of.id)
		case now && !due:
			s.violate(nil, Batches, "%s of batch %s is called, and not decided: %d are pending, %d of them failed", what, of.id, len(pending), len(failed))
		case now && of.callbacks[what] != "" && !s.stores(of.callbacks[what]):
			s.violate(nil, Batches, "%s of batch %s is called, and its callback is not stored", what, of.id)
		}
	}
}

// judgeGone holds that all keys of a batch go in one step, and its entry with them.
func (s *stride) judgeGone(of *batch) {
	if of.listed {
		s.violate(nil, Batches, "batch %s is gone, and still listed", of.id)
	}
	for set, jids := range of.sets {
		if len(jids) > 0 {
			s.violate(nil, Batches, "batch %s is gone, and its %s jobs are not", of.id, set)
		}
	}
	delete(s.k.batches, of.id)
}

// stores reports whether the step stores a job whose text begins like this.
func (s *stride) stores(text string) bool {
	return slices.ContainsFunc(s.touched, func(of *subject) bool { return strings.HasPrefix(of.text, text) })
}

// judgeMember holds that a member which lives is pending in its batch, one that has failed is counted so, and
// one that has ended is not pending, unless it died.
func (s *stride) judgeMember(of *subject) {
	var field string
	if !of.named || !strings.Contains(of.text, `"belay_batch"`) || json.Unmarshal([]byte(valueOf(of.text, "belay_batch")), &field) != nil {
		return
	}
	id, _, _ := strings.Cut(field, "/")
	in := s.k.batches[id]
	if in == nil || !in.known {
		return
	}
	pending, died := in.sets["pending"][of.jid], in.sets["dead"][of.jid]
	switch {
	case of.copies > 0 && !pending:
		s.violate(of, Batches, "it is in %s, and not pending in batch %s", of.edge.To, id)
	case of.copies > 0 && (of.edge.To == Dead) != died:
		s.violate(of, Batches, "it is in %s, and batch %s has it as dead: %t", of.edge.To, id, died)
	case of.copies > 0 && of.edge.Move == Retried && !in.sets["failed"][of.jid]:
		s.violate(of, Batches, "it has failed, and batch %s does not have it as failed", id)
	case of.copies == 0 && pending && !died && of.abroad == nil && of.edge.Move != Trimmed:
		s.violate(of, Batches, "it has ended, and is pending in batch %s", id)
	}
}
