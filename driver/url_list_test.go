package driver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplitList(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]NamedURL{
		"":                                  nil,
		"redis://a":                         nil,
		"redis://user:a=redis://b@host":     nil,
		"unix:///tmp/a=b.sock?db=1":         nil,
		"redis+cluster://a,b?shards=3":      nil,
		"a=redis://h":                       {{Name: "a", URL: "redis://h"}},
		" a=redis://h/1 \n b-2=rediss://h2": {{Name: "a", URL: "redis://h/1"}, {Name: "b-2", URL: "rediss://h2"}},
		"a=unix:///tmp/s?db=2 b=redis+sentinel://s1,s2/main": {
			{Name: "a", URL: "unix:///tmp/s?db=2"}, {Name: "b", URL: "redis+sentinel://s1,s2/main"},
		},
		"a=redis://h?db=1&unbound=true&client_name=x b=redis://h?closed=true c=redis://h?closed=false": {
			{Name: "a", URL: "redis://h?db=1&client_name=x", Unbound: true}, {Name: "b", URL: "redis://h", Closed: true},
			{Name: "c", URL: "redis://h"},
		},
		"A=redis://h": {{Name: "A", URL: "redis://h"}}, // the name is refused where the shards are
	} {
		list, err := SplitList(text)
		require.NoError(t, err, text)
		require.Equal(t, want, list, text)
	}
	for text, message := range map[string]string{
		"a=redis://h redis://:SECRET@h":      "an item that is not NAME=URL",
		"redis://:SECRET@h a=redis://h":      "an item that is not NAME=URL",
		"a= b=redis://:SECRET@h":             "an item that is not NAME=URL",
		"a=redis://:SECRET@h?closed=maybe":   "shard a: the closed of its Redis URL must be true or false",
		"a=redis://h?closed=true&closed=1&x": "shard a: the closed of its Redis URL must be true or false",
	} {
		_, err := SplitList(text)
		require.ErrorContains(t, err, message, text)
		require.NotContains(t, err.Error(), "SECRET")
	}
}

func TestAddURL(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"", "redis://a", "redis://a"},
		{"redis://a", "redis://b", "redis://b"},
		{"redis://a", "", ""},
		{"", "a=redis://a", "a=redis://a"},
		{"a=redis://a", "b=redis://b", "a=redis://a b=redis://b"},
		{"a=redis://a", "redis://b", "a=redis://a redis://b"},
		{"redis://a", "b=redis://b", "redis://a b=redis://b"},
	} {
		require.Equal(t, c[2], AddURL(c[0], c[1]), c)
	}
}
