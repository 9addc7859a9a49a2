package inspect

import (
	"cmp"
	"context"
	"slices"
	"time"
)

const (
	// maxGrouped bounds the entries that one Groups reads: Redis serves so many in a tenth of a second.
	maxGrouped = 10_000
	// maxGroups bounds the groups of one Groups. Some programs put an ID into the class of an error.
	maxGroups = 500
)

// A Group is the jobs of one class that failed with one class of error.
type Group struct {
	Class string `json:"class"`
	// ErrorClass is empty for jobs that have not failed.
	ErrorClass string `json:"error_class"`
	Jobs       int    `json:"jobs"`
	// First and Last are the earliest and the latest Found.Since of the jobs: for dead jobs when they died, for
	// retries when they failed last.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
}

// Groups counts the jobs that match a Query.
type Groups struct {
	// Groups are at most 500, those with the most jobs first.
	Groups []Group `json:"groups"`
	// Jobs counts all jobs that match; Others those that are in none of Groups.
	Jobs   int `json:"jobs"`
	Others int `json:"others"`
	// Looked is the number of entries that were read. The figures cover these alone.
	Looked int `json:"looked"`
	// Next is the Cursor of the next call; empty at the end.
	Next string `json:"next,omitempty"`
	// Unseen describes places that could not be searched.
	Unseen []string `json:"unseen,omitempty"`
}

// Groups counts the jobs that match a query by class and class of error. One call reads about 10,000 entries,
// those that Search reads first, and ends earlier after Query.Time, one second by default. Groups.Next
// continues there, and Add adds the results. Limit has no meaning here.
func (i *Inspector) Groups(ctx context.Context, query Query) (Groups, error) {
	found := Groups{Groups: []Group{}}
	ends := time.Now().Add(cmp.Or(query.Time, searchTime))
	s := i.search(query)
	if err := readCursor(query.Cursor, &s.at); err != nil {
		return found, err
	}
	groups := make(grouping)
	s.visit = func(f Found) bool {
		group := Group{Class: f.Class, Jobs: 1, First: f.Since, Last: f.Since}
		if f.Entry != nil {
			group.ErrorClass = f.Entry.ErrorClass
		}
		groups.add(group)
		found.Jobs++
		return false
	}
	s.pageEnd = func() bool { return s.looked >= maxGrouped || !time.Now().Before(ends) }
	stopped, err := s.run(ctx)
	found.Looked, found.Unseen = s.looked, s.unseen
	found.list(groups)
	if err != nil {
		return found, s.wrap(err)
	}
	if stopped {
		found.Next = cursorOf(s.at)
	}
	return found, nil
}

// Add adds the groups of the next call with the same query. Next becomes that of the next call.
func (g *Groups) Add(next Groups) {
	groups := make(grouping)
	for _, group := range slices.Concat(g.Groups, next.Groups) {
		groups.add(group)
	}
	g.Jobs, g.Looked, g.Next = g.Jobs+next.Jobs, g.Looked+next.Looked, next.Next
	g.Unseen = slices.Concat(g.Unseen, next.Unseen)
	g.list(groups)
}

// list sets Groups and Others.
func (g *Groups) list(groups grouping) {
	g.Groups, g.Others = make([]Group, 0, len(groups)), g.Jobs
	for _, group := range groups {
		g.Groups = append(g.Groups, *group)
	}
	slices.SortFunc(g.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), b.Last.Compare(a.Last), cmp.Compare(a.Class, b.Class), cmp.Compare(a.ErrorClass, b.ErrorClass))
	})
	g.Groups = g.Groups[:min(len(g.Groups), maxGroups)]
	for _, group := range g.Groups {
		g.Others -= group.Jobs
	}
}

// grouping holds groups by class and class of error.
type grouping map[[2]string]*Group

// add adds jobs to their group. It drops the jobs of further groups when there are four times as many as are
// listed, so that no Redis can fill the memory; they then count among the others.
func (g grouping) add(jobs Group) {
	name := [2]string{jobs.Class, jobs.ErrorClass}
	group := g[name]
	switch {
	case group == nil && len(g) < 4*maxGroups:
		g[name] = &jobs
	case group != nil:
		group.Jobs += jobs.Jobs
		if !jobs.First.IsZero() && (group.First.IsZero() || jobs.First.Before(group.First)) {
			group.First = jobs.First
		}
		if jobs.Last.After(group.Last) {
			group.Last = jobs.Last
		}
	}
}
