package args

import (
	"encoding/json"
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
	// ownStamp has its own MarshalJSON.
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

type (
	lossyBase struct {
		Tenant int
		note   string //nolint:unused // what the tests are about
	}
	lossy struct {
		UserID int
		teamID int //nolint:unused // what the tests are about
		lossyBase
	}
	lossyFunc struct {
		F      func()
		teamID int //nolint:unused // what the tests are about
	}
)

// named returns the error of ForNamed for a T.
func named[T any]() error {
	_, err := ForNamed(reflect.TypeFor[T]())
	return err
}

// refusal returns the error of For for a T.
func refusal[T any]() error {
	_, err := For(reflect.TypeFor[T]())
	return err
}

func TestForRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"without exported fields":                  {refusal[struct{ secret int }](), "struct { secret int } has no exported fields to be arguments; capitalize their names"},
		"a field without a capital":                {refusal[lossy](), "field teamID is not exported, so no handler would get it: capitalize its name, or tag it belay:\"-\"\nfield note is not exported"},
		"such a field beside another problem":      {refusal[lossyFunc](), "field F: a func() has no JSON\nfield teamID is not exported"},
		"such a field, with named arguments":       {named[lossy](), "field teamID is not exported, so no handler would get it"},
		"a pointer to a struct":                    {refusal[*nested](), "*args.nested is a pointer: leave out the asterisk"},
		"a channel":                                {refusal[chan int](), "a chan int has no JSON"},
		"a function in a field":                    {refusal[struct{ F func() }](), "field F: a func() has no JSON"},
		"a complex number further in":              {refusal[struct{ L []map[string]complex64 }](), "field L: a complex64 has no JSON"},
		"an interface with methods":                {refusal[struct{ R io.Reader }](), "field R: io.Reader is an interface with methods"},
		"an error":                                 {refusal[struct{ Sub struct{ Err error } }](), "field Sub.Err: error is an interface with methods"},
		"a pointer to itself":                      {refusal[struct{ R ring }](), "field R: args.ring points to a pointer"},
		"a mutex":                                  {refusal[struct{ L locked }](), "field L.Mu: sync.Mutex has no exported fields"},
		"keys that are structs":                    {refusal[struct{ S struct{ M map[nested]int } }](), "field S.M: a map[args.nested]int has keys that cannot be written"},
		"one that is written and not read":         {refusal[writeOnly](), "args.writeOnly has a MarshalJSON and no UnmarshalJSON"},
		"one that is written as text and not read": {refusal[struct{ X []textOnly }](), "field X: args.textOnly has a MarshalText and no UnmarshalText"},
		"a writer that is an embedded field's":     {refusal[stampedText](), "is written by the method of its embedded time.Time, and nothing else of it is"},
		"such a one further in":                    {refusal[struct{ At *stampedText }](), "field At: args.stampedText is written by the method"},
		"a name that encoding/json ignores": {refusal[struct {
			S struct {
				A int `json:"a\"b"` //nolint:staticcheck // it is what is tested
			}
		}](), "field S.A: its JSON name \"a\\\"b\" holds a quotation mark"},
		"fields that are there twice": {refusal[struct {
			Base
			Tenant string
		}](), "field Tenant is there twice"},
		"a pointer that is embedded":        {refusal[struct{ *Base }](), "field Base: a job without it and a job with zeros"},
		"a hidden pointer that is embedded": {refusal[struct{ S struct{ *small } }](), "field S.small: no handler could make a *args.small"},
		"a rest that is not last":           {refusal[restFirst](), "field Last follows Rest, which takes the rest: put Rest last"},
		"a rest that is no slice":           {refusal[restNumber](), "field Rest: a rest must be a slice"},
		"a rest that is bytes":              {refusal[restBytes](), "field Rest: a rest must be a slice"},
		"a rest of what has no JSON":        {refusal[restFuncs](), "field Rest: a func() has no JSON"},
		"an unknown tag":                    {refusal[tagged](), `field A: the tag belay:"rest" is not known`},
		"a number as a string":              {refusal[quoted](), `field A: the tag json:",string" is not for arguments`},
		"all problems, not only the first": {refusal[struct {
			A chan int
			B func()
		}](), "field A: a chan int has no JSON\nfield B: a func() has no JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, c.err, c.want)
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
func TestForRefusesTwoFieldsOfOneJSONName(t *testing.T) {
	t.Parallel()
	twice := reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"x"`}, {Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
	})
	_, err := For(reflect.StructOf([]reflect.StructField{{Name: "P", Type: twice}}))
	require.EqualError(t, err, `field P.B: its JSON name "x" is there twice, and neither field would be written`)
	_, err = For(twice)
	require.NoError(t, err, "arguments have no names")
}

func TestForTakes(t *testing.T) {
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
