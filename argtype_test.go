package belay

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type (
	ring        *ring
	tree        struct{ Children []tree }
	forest      map[string]forest
	writeOnly   int
	textOnly    int
	stamp       struct{ time.Time }
	stampedText struct {
		time.Time
		Place string
	}
	// ownStamp says itself how it is written.
	ownStamp struct {
		time.Time
		Place string
	}
	locked struct {
		Name string
		Mu   sync.Mutex
	}
)

func (writeOnly) MarshalJSON() ([]byte, error)  { return []byte(`1`), nil }
func (textOnly) MarshalText() ([]byte, error)   { return []byte("x"), nil }
func (o ownStamp) MarshalJSON() ([]byte, error) { return json.Marshal(o.Place) }

func (o *ownStamp) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, &o.Place) }

// defining tells the panic of Define, or nil.
func defining[T any](options ...DefineOption) (panicked any) {
	defer func() { panicked = recover() }()
	Define[T]("A", options...)
	return nil
}

func TestDefineRefusesTypes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		panicked any
		want     string
	}{
		"without exported fields":                  {defining[struct{ secret int }](), "struct { secret int } has no exported fields to be arguments; capitalize their names"},
		"a pointer to a struct":                    {defining[*nested](), "*belay.nested is a pointer: leave out the asterisk"},
		"a channel":                                {defining[chan int](), "a chan int has no JSON"},
		"a function in a field":                    {defining[struct{ F func() }](), "field F: a func() has no JSON"},
		"a complex number further in":              {defining[struct{ L []map[string]complex64 }](), "field L: a complex64 has no JSON"},
		"an interface with methods":                {defining[struct{ R io.Reader }](), "field R: io.Reader is an interface with methods"},
		"an error":                                 {defining[struct{ Sub struct{ Err error } }](), "field Sub.Err: error is an interface with methods"},
		"a pointer to itself":                      {defining[struct{ R ring }](), "field R: belay.ring points to a pointer"},
		"a mutex":                                  {defining[struct{ L locked }](), "field L.Mu: sync.Mutex has no exported fields"},
		"keys that are numbers":                    {defining[map[int]string](), "a map[int]string has keys that are no strings"},
		"keys that are structs":                    {defining[struct{ S struct{ M map[nested]int } }](), "field S.M: a map[belay.nested]int has keys that cannot be written"},
		"one that is written and not read":         {defining[writeOnly](), "belay.writeOnly has a MarshalJSON and no UnmarshalJSON"},
		"one that is written as text and not read": {defining[struct{ X []textOnly }](), "field X: belay.textOnly has a MarshalText and no UnmarshalText"},
		"a writer that is an embedded field's":     {defining[stampedText](), "has the MarshalJSON of its embedded time.Time, which would be all that is written"},
		"such a one further in":                    {defining[struct{ At *stampedText }](), "field At: belay.stampedText has the MarshalJSON"},
		"copies of what needs an address":          {defining[map[string]celsius](), "make it a map of pointers"},
		"what needs an address in such a struct":   {defining[struct{ L []struct{ T celsius } }](), "field L.T: belay.celsius writes itself only by a pointer"},
		"fields that are there twice": {defining[struct {
			Base
			Tenant string
		}](), "field Tenant is there twice"},
		"a pointer that is embedded":        {defining[struct{ *Base }](), "field Base: a job without it could not be told"},
		"a hidden pointer that is embedded": {defining[struct{ S struct{ *small } }](), "field S.small: no handler could make a *belay.small"},
		"a rest that is not last":           {defining[restFirst](), "field Last stands behind Rest, which takes the rest: put Rest last"},
		"a rest that is no slice":           {defining[restNumber](), "field Rest: a rest is a slice"},
		"a rest that is bytes":              {defining[restBytes](), "field Rest: a rest is a slice"},
		"a rest of what has no JSON":        {defining[restFuncs](), "field Rest: a func() has no JSON"},
		"a tag that says nothing":           {defining[tagged](), `field A: the tag belay:"rest" says nothing`},
		"a number that is to be a string":   {defining[quoted](), `field A: the tag json:",string" is not for arguments`},
		"everything that is wrong, not the first": {defining[struct {
			A chan int
			B func()
		}](), `field A: a chan int has no JSON; field B: a func() has no JSON`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NotNil(t, c.panicked, "Define took it")
			require.Contains(t, fmt.Sprint(c.panicked), `belay: Define "A": `)
			require.Contains(t, fmt.Sprint(c.panicked), c.want)
		})
	}
}

type (
	restFirst struct {
		Rest []int `belay:",rest"`
		Last int
	}
	restNumber struct {
		Rest int `belay:",rest"`
	}
	restBytes struct {
		Rest []byte `belay:",rest"`
	}
	restFuncs struct {
		Rest []func() `belay:",rest"`
	}
	tagged struct {
		A []int `belay:"rest"`
	}
	quoted struct {
		A int `json:",string"`
	}
)

// It is made at run time because vet finds it in a source.
func TestDefineRefusesTwoFieldsOfOneJSONName(t *testing.T) {
	t.Parallel()
	twice := reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"x"`}, {Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
	})
	_, err := shapeOf(reflect.StructOf([]reflect.StructField{{Name: "P", Type: twice}}))
	require.EqualError(t, err, `field P.B: its JSON name "x" is there twice, and neither field would be written`)
	_, err = shapeOf(twice)
	require.NoError(t, err, "arguments have no names")
}

func TestDefineTakes(t *testing.T) {
	t.Parallel()
	t.Run("types whose values end although they do not", func(t *testing.T) {
		t.Parallel()
		bothWays(t, `[[{"Children":[]}]]`, tree{Children: []tree{{Children: []tree{}}}})
		bothWays(t, `[{"a":{}}]`, forest{"a": {}})
	})
	t.Run("an embedded writer that is all there is, or that is overridden", func(t *testing.T) {
		t.Parallel()
		bothWays(t, `["2026-01-02T03:04:05Z"]`, stamp{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
		bothWays(t, `["here"]`, ownStamp{Place: "here"})
	})
}
