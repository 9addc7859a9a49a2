package middleware_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job/middleware"
)

func TestAList(t *testing.T) {
	t.Parallel()
	var list middleware.List[string]
	add := func(name string, places ...middleware.Place) {
		t.Helper()
		require.NoError(t, list.Add(name, name, places...))
	}
	add("last", middleware.Place{Last: true})
	add("b")
	add("first", middleware.Place{First: true})
	add("a", middleware.Place{Before: "b"})
	add("c", middleware.Place{After: "b"})
	add("d", middleware.Place{})
	require.Equal(t, []string{"first", "a", "b", "c", "d", "last"}, list.All(), "last stays last")

	require.NoError(t, list.Add("end", "end", middleware.Place{InPlaceOf: "last"}))
	add("e")
	require.Equal(t, []string{"first", "a", "b", "c", "d", "e", "end"}, list.All(), "what replaces the last one stays last")
	require.NoError(t, list.Remove("end"))
	add("f")
	add("z", middleware.Place{Last: true})
	require.Equal(t, []string{"first", "a", "b", "c", "d", "e", "f", "z"}, list.All())

	for want, places := range map[string][]middleware.Place{
		"is given 2 places": {{First: true, Before: "a"}},
		"is given 3 places": {{First: true}, {Last: true, After: "a"}},
		`there is none called "none" in ["first" "a" "b" "c" "d" "e" "f" "z"]`: {{After: "none"}},
	} {
		require.ErrorContains(t, list.Add("new", "new", places...), want)
	}
	require.ErrorContains(t, list.Add("a", "a", middleware.Place{InPlaceOf: "b"}), "is in the chain already")
	require.ErrorContains(t, list.Remove("none"), `there is no middleware called "none"`)
	require.Len(t, list.All(), 8, "an error changes nothing")
}
