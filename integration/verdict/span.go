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

func (s span) length() time.Duration          { return s.to - s.from }
func (s span) overlaps(other span) bool       { return s.from <= other.to && other.from <= s.to }
func (s span) covers(other span) bool         { return s.from <= other.from && other.to <= s.to }
func (s span) contains(at time.Duration) bool { return s.from <= at && at <= s.to }

// later is a span that ends later, but for one without an end.
func (s span) later(by time.Duration) span {
	if s.to < forever-by {
		s.to += by
	}
	return s
}

// union answers the same time in spans that are in order and apart.
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

// touches says whether a span overlaps any of others.
func (s span) touches(others []span) bool { return slices.ContainsFunc(others, s.overlaps) }
