package verdict

import (
	"cmp"
	"slices"
	"time"
)

// forever is later than anything that happens.
const forever = time.Duration(1<<63 - 1)

// A span is a stretch of time, both ends included.
type span struct{ from, to time.Duration }

func (s span) length() time.Duration    { return s.to - s.from }
func (s span) overlaps(other span) bool { return s.from <= other.to && other.from <= s.to }

// later returns a span that ends later, unless it has no end.
func (s span) later(by time.Duration) span {
	if s.to < forever-by {
		s.to += by
	}
	return s
}

// union returns the same time in spans that are in order and apart.
func union(spans []span) []span {
	sorted := slices.SortedFunc(slices.Values(spans), func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var joined []span
	for _, s := range sorted {
		if last := len(joined) - 1; last >= 0 && s.from <= joined[last].to {
			joined[last].to = max(joined[last].to, s.to)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// within is how much of a span lies in others, which are in order and apart.
func (s span) within(others []span) time.Duration {
	var sum time.Duration
	for _, other := range others {
		if s.overlaps(other) {
			sum += min(s.to, other.to) - max(s.from, other.from)
		}
	}
	return sum
}

// overlapping returns the times in which at least n of the spans overlap.
func overlapping(spans []span, n int) []span {
	type edge struct {
		at time.Duration
		by int
	}
	var edges []edge
	for _, s := range spans {
		edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.by, a.by)) })
	var found []span
	depth := 0
	for _, e := range edges {
		before := depth
		depth += e.by
		switch {
		case before < n && depth >= n:
			found = append(found, span{from: e.at})
		case before >= n && depth < n:
			found[len(found)-1].to = e.at
		}
	}
	return union(found)
}

// minus returns a span without others, which are in order and apart.
func minus(s span, others []span) []span {
	var rest []span
	at := s.from
	for _, other := range others {
		if other.to < at || other.from > s.to {
			continue
		}
		if other.from > at {
			rest = append(rest, span{at, other.from})
		}
		at = max(at, other.to)
	}
	if at < s.to {
		rest = append(rest, span{at, s.to})
	}
	return rest
}
