package args

import (
	"encoding/json"
	"math/big"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// opaque is {} to encoding/json, whatever is in it.
type opaque struct{ id int }

// shown writes itself.
type shown struct{ id int }

func (s shown) MarshalJSON() ([]byte, error) { return json.Marshal(s.id) }

type withOpaque struct {
	ID    int
	Other opaque
}

type stamped struct {
	time.Time
	Place string
}

// marked is as useless as it looks to JSON, and so are those that have it in them, but for what else they
// have.
type marked struct{ _ [0]func() }

type branch struct{ Children []*branch }

func TestLossless(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]any{
		"nil": nil, "a number": 1, "a string": "x", "a list": []any{1, "x", nil, []string{"y"}}, "bytes": []byte("x"),
		"a struct": struct{ ID int }{1}, "nothing on purpose": struct{}{}, "a struct with more": struct {
			ID int
			x  int
		}{1, 2},
		"a time": time.Now(), "a pointer to a time": &time.Time{}, "a nil pointer": (*opaque)(nil), "a number by a pointer": big.NewInt(5),
		"numbers in a slice": []big.Int{*big.NewInt(5)}, "numbers behind a pointer": &sum{}, "what writes itself": shown{1},
		"a pointer to it": &shown{1}, "an address": netip.MustParseAddr("::1"), "addresses": map[string]any{"a": netip.MustParseAddr("::1")},
		"a tree": branch{[]*branch{nil, {}}}, "an embedded struct": &struct{ sum }{}, "raw JSON": json.RawMessage(`{}`),
		"beside a marker": struct {
			marked
			ID int
		}{},
		"what is left out by name": struct {
			ID    int
			Other opaque `json:"-"`
		}{},
	} {
		require.NoError(t, Lossless(v), name)
	}
	for name, v := range map[string]any{
		"itself": opaque{1}, "behind a pointer": &opaque{1}, "in a list": []any{1, opaque{1}}, "in an array": [1]opaque{{1}},
		"in a map": map[string]any{"a": []opaque{{1}}}, "in a field": withOpaque{1, opaque{2}}, "in a field of a pointer": &withOpaque{},
		"embedded": struct{ opaque }{}, "with nothing to write": struct {
			ID int `json:"-"`
		}{1},
	} {
		require.ErrorContains(t, Lossless(v), "would be written as {}; capitalize", name)
	}
	require.ErrorContains(t, Lossless(*big.NewInt(5)), "big.Int writes itself only by a pointer")
	require.ErrorContains(t, Lossless(map[string]big.Int{"a": *big.NewInt(5)}), "make it a pointer")
	require.ErrorContains(t, Lossless(sum{}), "make it a pointer")
	require.ErrorContains(t, Lossless(stamped{}), "give the embedded field a name")
	require.ErrorContains(t, Lossless(&stamped{}), "give the embedded field a name")
}
