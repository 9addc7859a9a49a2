package inspect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGroups(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0).UTC() }
	dead := PlaceDead
	promises(t, map[string]func(w *world){
		"count jobs by class and class of error, with their first and last time": func(w *world) {
			w.fill(w.keys.Dead(), 100, sample("A", "1", `"error_class":"Boom"`), sample("B", "2", `"error_class":"Boom"`),
				sample("A", "3", `"error_class":"Boom"`), sample("A", "4", `"error_class":"Late"`), "garbage")
			w.fill(w.keys.Retry(), 2e9, sample("A", "5", `"error_class":"Boom"`))
			groups, err := w.inspector.Groups(w.Context(), Query{Places: []Place{dead}})
			require.NoError(w, err)
			require.Equal(w, Groups{Jobs: 5, Looked: 5, Groups: []Group{
				{Class: "A", ErrorClass: "Boom", Jobs: 2, First: at(100), Last: at(102)}, {Jobs: 1, First: at(104), Last: at(104)},
				{Class: "A", ErrorClass: "Late", Jobs: 1, First: at(103), Last: at(103)}, {Class: "B", ErrorClass: "Boom", Jobs: 1, First: at(101), Last: at(101)},
			}}, groups)
			groups, err = w.inspector.Groups(w.Context(), Query{Places: []Place{dead}, Filter: Filter{Class: "A", ErrorClass: "Boom"}})
			require.NoError(w, err)
			require.Equal(w, 2, groups.Jobs)
			require.Len(w, groups.Groups, 1)
		},
		"read a bounded part of a large set, and continue": func(w *world) {
			for from := 0; from < 2*maxGrouped; from += 1000 {
				words := []string{"ZADD", w.keys.Dead()}
				for n := from; n < from+1000; n++ {
					words = append(words, fmt.Sprint(n), sample(fmt.Sprint("C", n%4), fmt.Sprint(n)))
				}
				w.do(words...)
			}
			query := Query{Places: []Place{dead}, Time: time.Minute}
			groups, err := w.inspector.Groups(w.Context(), query)
			require.NoError(w, err)
			require.NotEmpty(w, groups.Next)
			require.InDelta(w, maxGrouped, groups.Looked, 256)
			require.Equal(w, groups.Looked, groups.Jobs)
			for _, group := range groups.Groups {
				require.Greater(w, group.First, at(maxGrouped-300), "the jobs that died last come first")
			}
			for query.Cursor = groups.Next; query.Cursor != ""; query.Cursor = groups.Next {
				next, err := w.inspector.Groups(w.Context(), query)
				require.NoError(w, err)
				groups.Add(next)
			}
			require.Equal(w, 2*maxGrouped, groups.Jobs)
			require.Len(w, groups.Groups, 4)
			require.Equal(w, Group{Class: "C3", Jobs: maxGrouped / 2, First: at(3), Last: at(2*maxGrouped - 1)}, groups.Groups[0])
			short, err := w.inspector.Groups(w.Context(), Query{Places: []Place{dead}, Time: time.Nanosecond})
			require.NoError(w, err)
			require.LessOrEqual(w, short.Looked, 256)
			require.NotEmpty(w, short.Next)
			_, err = w.inspector.Groups(w.Context(), Query{Cursor: "nonsense"})
			require.ErrorIs(w, err, ErrCursor)
		},
		"are bounded, however many classes of errors there are": func(w *world) {
			var payloads []string
			for n := range 5 * maxGroups {
				payloads = append(payloads, sample("A", fmt.Sprint(n), fmt.Sprintf(`"error_class":"E%04d"`, n)))
			}
			w.fill(w.keys.Dead(), 100, payloads...)
			groups, err := w.inspector.Groups(w.Context(), Query{Time: time.Minute})
			require.NoError(w, err)
			require.Len(w, groups.Groups, maxGroups)
			require.Equal(w, 5*maxGroups, groups.Jobs)
			require.Equal(w, 4*maxGroups, groups.Others)
			groups.Add(Groups{Groups: []Group{{Class: "B", Jobs: 2}}, Jobs: 2})
			require.Equal(w, Group{Class: "B", Jobs: 2}, groups.Groups[0])
			require.Len(w, groups.Groups, maxGroups)
			require.Equal(w, 4*maxGroups+1, groups.Others)
		},
	})
}

func TestFiltersByErrorClassAndTag(t *testing.T) {
	promises(t, map[string]func(w *world){
		"choose the jobs whose fields are equal": func(w *world) {
			w.fill(w.keys.Dead(), 100, sample("A", "one", `"error_class":"*fs.PathError"`, `"tags":["billing","caf\u00e9"]`),
				sample("A", "two", `"error_class":"*fs.PathErrorToo"`, `"tags":["billing also"]`), sample("A", "three", `"args":["*fs.PathError","billing"]`), "billing garbage")
			for filter, want := range map[Filter]string{
				{ErrorClass: "*fs.PathError"}: "one", {ErrorClass: "fs.PathError"}: "", {Tag: "billing"}: "one", {Tag: "café"}: "one",
				{Tag: "bill"}: "", {Tag: "billing", ErrorClass: "*fs.PathErrorToo"}: "", {Text: "ONE"}: "one", {Text: "on"}: "",
			} {
				require.Equal(w, want, strings.Join(jids(w.search(Query{Filter: filter})), " "), "%+v", filter)
			}
			counts, err := w.inspector.Act(w.Context(), Task{Home: Dead(), Action: Delete, Selection: Selection{Filter: Filter{Tag: "billing"}}}, nil)
			require.NoError(w, err)
			require.Equal(w, ActCounts{Moved: 1}, counts)
			require.Equal(w, []string{"three", "two"}, jids(w.search(Query{}))[1:])
		},
		"of runs find none, because a run in Ruby does not report them": func(w *world) {
			w.everywhere()
			require.Empty(w, w.search(Query{Places: []Place{PlaceRunning}, Filter: Filter{Tag: "x"}}))
			require.Empty(w, w.search(Query{Places: []Place{PlaceRunning}, Filter: Filter{ErrorClass: "x"}}))
		},
	})
}
