package job_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// asGo returns what encoding/json writes for v, without escapes for HTML.
func asGo(t *testing.T, v any) string {
	t.Helper()
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(v))
	return strings.TrimSuffix(text.String(), "\n")
}

type (
	Deep   struct{ A, B, C, D int }
	Left   struct{ Deep }
	Right  struct{ Deep }
	hidden struct {
		Shown int
		own   int // must be left out
	}
	Tree struct {
		Name     string
		Children []*Tree `json:",omitempty"`
	}
	Number int
	// Zeroed has an IsZero method.
	Zeroed struct{ N int }
	// ZeroedByPointer has an IsZero method with a pointer receiver.
	ZeroedByPointer struct{ N int }
	textKey         struct{ n int }
)

func (z Zeroed) IsZero() bool                  { return z.N == 7 }
func (z *ZeroedByPointer) IsZero() bool        { return z.N == 7 }
func (k textKey) MarshalText() ([]byte, error) { return []byte{byte('a' + k.n)}, nil }

// The fields of a struct are selected and named as encoding/json does.
func TestStructsHaveTheFieldsThatGoGivesThem(t *testing.T) {
	t.Parallel()
	seven, text := 7, "x"
	for name, v := range map[string]any{
		"names": struct {
			Plain, plain int
			Tagged       int `json:"t"`
			Dashed       int `json:"-"`
			Dash         int `json:"-,"` //nolint:staticcheck // it is what is tested
			Odd          int `json:"a/b ü"`
			Empty        int `json:",omitempty"`
		}{Plain: 1},
		"depth decides": struct {
			Deep
			A int
		}{Deep{1, 2, 3, 4}, 5},
		"one type twice": struct {
			Left
			Right
			A int
		}{},
		"two of one depth": struct {
			Deep
			Tree
			hidden
		}{},
		"two of one depth and name": struct {
			X struct{ A int }
			Left
			Other
		}{},
		"a tag decides": struct {
			Deep
			Tagged
		}{Tagged: Tagged{9}},
		"an embedded struct with a name": struct {
			Deep `json:"deep"`
		}{},
		"embedded pointers": struct {
			*Deep
			*Tree
		}{Deep: &Deep{A: 1}},
		"an embedded scalar":         struct{ Number }{3},
		"a hidden embedded struct":   struct{ hidden }{hidden{1, 2}},
		"a pointer to a hidden one":  struct{ *hidden }{&hidden{1, 2}},
		"no pointer to a hidden one": struct{ *hidden }{},
		"a tree":                     Tree{"a", []*Tree{{Name: "b"}, nil}},
		"left out when empty": struct {
			A []int          `json:",omitempty"`
			B map[string]int `json:",omitempty"`
			C *int           `json:",omitempty"`
			D any            `json:",omitempty"`
			E struct{}       `json:",omitempty"`
			F [0]int         `json:",omitempty"`
			G bool           `json:",omitempty"`
			H *int           `json:",omitempty"`
			I string         `json:",omitempty"`
			J time.Time      `json:",omitempty"`
		}{H: &seven},
		"left out when zero": struct {
			A Zeroed                     `json:",omitzero"`
			B Zeroed                     `json:",omitzero"`
			C ZeroedByPointer            `json:",omitzero"`
			D *ZeroedByPointer           `json:",omitzero"`
			E time.Time                  `json:",omitzero"`
			F []int                      `json:",omitzero"`
			G []int                      `json:",omitzero"`
			H interface{ IsZero() bool } `json:",omitzero"`
			I Deep                       `json:",omitzero"`
			J any                        `json:",omitzero"`
			K **Zeroed                   `json:",omitzero"`
			L interface{ IsZero() bool } `json:",omitzero"`
		}{J: (*int)(nil), K: new(*Zeroed), L: (*Zeroed)(nil), A: Zeroed{7}, C: ZeroedByPointer{7}, G: []int{}, H: Zeroed{7}},
		"as strings": struct {
			A int         `json:",string"`
			B *int        `json:",string"`
			C *int        `json:",string"`
			D bool        `json:",string"`
			E string      `json:",string"`
			F *string     `json:",string"`
			G []int       `json:",string"` //nolint:staticcheck // likewise
			H float64     `json:",string"`
			I json.Number `json:",string"`
			J Number      `json:"j,string,omitempty"`
		}{B: &seven, E: `a"b<\ufffd`, F: &text, H: 2, I: "1.50"},
		"maps": struct {
			A map[int]string
			B map[uint8]bool
			C map[textKey]int
			D map[Number][]map[int8]int
			E map[shoutingKey]int
		}{map[int]string{10: "a", 9: "b", -1: "c"}, map[uint8]bool{1: true}, map[textKey]int{{2}: 1, {1}: 2}, map[Number][]map[int8]int{1: {{2: 3}}}, map[shoutingKey]int{"k": 1}},
		"what writes itself": struct {
			A time.Time
			B *big.Int
			C netip.Addr
			D []netip.Addr
			E *netip.Addr
			F any
			G []byte
			H [2]byte
			J []byPointer
			K *byPointer
			L map[string]*byPointer
		}{B: big.NewInt(5), D: []netip.Addr{{}}, F: netip.Addr{}, G: []byte{1}, J: []byPointer{{1}}, L: map[string]*byPointer{"a": {2}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := job.Marshal(v)
			require.NoError(t, err)
			require.Equal(t, asGo(t, v), got)
			pointer := reflect.New(reflect.TypeOf(v)) // now the methods of pointers can be called
			pointer.Elem().Set(reflect.ValueOf(v))
			got, err = job.Marshal(pointer.Interface())
			require.NoError(t, err)
			require.Equal(t, asGo(t, pointer.Interface()), got)
		})
	}
}

type (
	// Other has a field at the depth of Left's.
	Other struct{ Left2 }
	// Left2 is one more way to the same names.
	Left2 struct{ A, E int }
	// Tagged has a name of Deep's by its tag.
	Tagged struct {
		Z int `json:"A"`
	}
	shoutingKey string
)

func (shoutingKey) MarshalText() ([]byte, error) { return []byte("LOUD"), nil }

// A whole float stays a float anywhere in a struct: Ruby reads 2 as an Integer.
func TestWholeFloatsStayFloatsInStructs(t *testing.T) {
	t.Parallel()
	type price struct {
		Amount float64 `json:"amount"`
		Tax    float32 `json:"tax,omitempty"`
	}
	type order struct {
		price
		Lines []price
		By    map[string]price
		At    *float64
		Any   any
		Named map[int]float64
	}
	two := 2.0
	got, err := job.MarshalArgs([]any{&order{price{2, 0.1}, []price{{Amount: 1e21}}, map[string]price{"a": {1e-7, 0}}, &two, []float64{3}, map[int]float64{1: 4}}})
	require.NoError(t, err)
	require.Equal(t, `[{"amount":2.0,"tax":0.1,"Lines":[{"amount":1.0e+21}],"By":{"a":{"amount":1.0e-07}},"At":2.0,"Any":[3.0],"Named":{"1":4.0}}]`, got)
}

// Respelling changes how a value is written, never the value.
func TestTextFromElsewhereIsSpelledAnew(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`["caf\u00e9", 1E5, 1.50, "\/" ]`:      `["café",100000.0,1.5,"/"]`,
		`[1e-7,1e+21,-0,-0.0]`:                 `[1.0e-07,1.0e+21,0,-0.0]`,
		`{"b":1,"a":2,"\u0062":{"x":1,"x":2}}`: `{"b":{"x":2},"a":2}`,
		`["\ufffd\u0000\u2028"]`:               "[\"\ufffd\\u0000\u2028\"]",
		`[123456789012345678901.10]`:           `[1.2345678901234568e+20]`,
		`[123456789012345678901]`:              `[123456789012345678901]`,
	} {
		got, err := job.Marshal(json.RawMessage(text))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// opaque is always {} in encoding/json.
type opaque struct{ id int }

// shown has a MarshalJSON.
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

// marked has no fields in JSON. A struct that embeds it has only its other fields.
type marked struct{ _ [0]func() }

// sum has no exported fields, and a MarshalJSON with a pointer receiver.
type sum struct{ Amount big.Int }

type branch struct{ Children []*branch }

// A struct that has the same JSON for all its values is refused: different unique jobs would be duplicates.
func TestMarshalRefusesStructsThatWouldLoseTheirFields(t *testing.T) {
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
		_, err := job.Marshal(v)
		require.NoError(t, err, name)
	}
	for name, v := range map[string]any{
		"itself": opaque{1}, "behind a pointer": &opaque{1}, "in a list": []any{1, opaque{1}}, "in an array": [1]opaque{{1}},
		"in a map": map[string]any{"a": []opaque{{1}}}, "in a field": withOpaque{1, opaque{2}}, "in a field of a pointer": &withOpaque{},
		"embedded": struct{ opaque }{}, "with nothing to write": struct {
			ID int `json:"-"`
		}{1},
	} {
		_, err := job.Marshal(v)
		require.ErrorContains(t, err, "would be written as {}; capitalize", name)
	}
	for _, v := range []any{stamped{}, &stamped{}, []stamped{{}}} {
		_, err := job.Marshal(v)
		require.ErrorContains(t, err, "give the embedded field a name")
	}
}
