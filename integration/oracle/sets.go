package oracle

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// member adds a text to a sorted set, or gives it another score.
func (s *stride) member(spot *spot, score float64, text, verb string) {
	if old := spot.set[text]; old != nil {
		old.score = score
		s.in(old, leg{at: spot, verb: verb, merged: true})
		return
	}
	e := &entry{text: text, of: s.k.subject(text), score: score}
	spot.set[text] = e
	s.in(e, leg{at: spot, verb: verb})
}

func (s *stride) unset(spot *spot, e *entry, verb string) {
	delete(spot.set, e.text)
	s.out(e, leg{at: spot, verb: verb})
}

// zadd takes in ZADD key [NX|XX] [GT|LT] [CH] [INCR] score member ..., of which Redis writes down only what
// changed something.
func (s *stride) zadd(c []string) {
	at, once, adds := 2, false, false
	for ; at < len(c); at++ {
		switch strings.ToUpper(c[at]) {
		case "NX":
			once = true
			continue
		case "INCR":
			adds = true
			continue
		case "XX", "GT", "LT", "CH":
			continue
		}
		break
	}
	key := c[1]
	if adds && key == s.k.keys.Alive() {
		s.prolongs(c[at+1], scoreOf(c[at]))
		return
	}
	if adds && s.k.matters(key) {
		s.violate(nil, CannotJudge, "%s with INCR on %s is not understood", c[0], key)
		return
	}
	spot := s.sets(key)
	for ; at+1 < len(c); at += 2 {
		switch score, text := scoreOf(c[at]), c[at+1]; {
		case key == s.k.keys.Alive():
			s.beats(text, score)
		case key == s.k.keys.Tombstones():
			s.dies(text, score, once)
		case key == s.k.keys.Unique():
			s.k.listed[text] = score
		case key == s.k.keys.Batches():
			s.keepBatch(text, score)
		case key == s.k.keys.Waiting():
			s.indexes(text, true)
		case key == s.k.keys.Leases():
			s.lease(text, true)
		case spot != nil && (!once || spot.set[text] == nil):
			s.member(spot, score, text, c[0])
		}
	}
}

func (s *stride) zincrby(spot *spot, c []string) {
	score := scoreOf(c[2])
	if old := spot.set[c[3]]; old != nil {
		score += old.score
	}
	s.member(spot, score, c[3], c[0])
}

func (s *stride) zrem(c []string) {
	spot := s.sets(c[1])
	for _, text := range c[2:] {
		switch {
		case c[1] == s.k.keys.Alive():
			s.k.process(text).expires(0, s.Number)
		case c[1] == s.k.keys.Tombstones():
			p := s.k.process(text)
			p.forgotten, p.tombstoned = p.tombstoned, false
		case c[1] == s.k.keys.Unique():
			s.unlist(text)
		case c[1] == s.k.keys.Batches():
			s.unlistBatch(text)
		case c[1] == s.k.keys.Waiting():
			s.indexes(text, false)
		case c[1] == s.k.keys.Leases():
			s.lease(text, false)
		case spot != nil && spot.set[text] != nil:
			s.unset(spot, spot.set[text], c[0])
		}
	}
}

// ordered are the members of a set by score, then by text, as Redis orders them.
func (s *spot) ordered() []*entry {
	all := s.entries()
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.text, b.text)) })
	return all
}

// zremrangebyrank takes out the members of these ranks; negative ones count from the end.
func (s *stride) zremrangebyrank(spot *spot, c []string) {
	first, _ := strconv.Atoi(c[2])
	last, _ := strconv.Atoi(c[3])
	if first < 0 {
		first = max(len(spot.set)+first, 0)
	}
	if last < 0 {
		last += len(spot.set)
	}
	for rank, e := range spot.ordered() {
		if rank >= first && rank <= last {
			s.unset(spot, e, c[0])
		}
	}
}

func (s *stride) zremrangebyscore(spot *spot, c []string) {
	least, most := boundOf(c[2]), boundOf(c[3])
	for _, e := range spot.ordered() {
		above := e.score > least.at || (e.score == least.at && !least.open)
		below := e.score < most.at || (e.score == most.at && !most.open)
		if above && below {
			s.unset(spot, e, c[0])
		}
	}
}

// A bound is an end of a range of scores; an open one is not part of it.
type bound struct {
	at   float64
	open bool
}

func boundOf(word string) bound {
	rest, open := strings.CutPrefix(word, "(")
	return bound{scoreOf(rest), open}
}

func scoreOf(word string) float64 {
	score, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return math.NaN() // Redis accepted it, so it is no word of ours; nothing compares with it
	}
	return score
}
