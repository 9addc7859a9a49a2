package args

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// grumpy quotes text that it cannot read in its error, as time.Time does.
type grumpy string

func (g grumpy) MarshalJSON() ([]byte, error) { return json.Marshal(string(g)) }

func (g *grumpy) UnmarshalJSON(text []byte) error {
	if string(text) == `""` {
		return nil
	}
	return &json.UnmarshalTypeError{Value: "SECRET " + string(text), Type: reflect.TypeFor[grumpy]()}
}

type contract struct {
	ID     int8
	Name   string
	Min    *uint
	Ratio  float32
	At     time.Time
	Lines  []nested
	Own    grumpy
	Nested struct {
		Sub struct{ OK bool }
		Own *grumpy
		By  map[int]bool
	}
	By   map[string][]int
	Raw  []byte
	Rest []small `belay:",rest"`
}

func TestArgsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		`["SECRET"]`:                        "argument 1 (ID): a string, where int8 is wanted",
		`[300]`:                             "argument 1 (ID): a number that int8 cannot hold",
		`[1.0]`:                             "argument 1 (ID): a number that int8 cannot hold",
		`[1e999]`:                           "argument 1 (ID): a number that int8 cannot hold",
		`[1,{"SECRET":1}]`:                  "argument 2 (Name): an object, where string is wanted",
		`[1,777]`:                           "argument 2 (Name): a number, where string is wanted",
		`[1,"a",-1]`:                        "argument 3 (Min): a number that uint cannot hold",
		`[1,"a",true]`:                      "argument 3 (Min): a boolean, where uint is wanted",
		`[1,"a",1,1e300]`:                   "argument 4 (Ratio): a number that float32 cannot hold",
		`[1,"a",1,1,"SECRET"]`:              "argument 5 (At): a string that time.Time cannot hold",
		`[1,"a",1,1,777]`:                   "argument 5 (At): a number that time.Time cannot hold",
		`[1,"a",1,1,null,[{"name":[777]}]]`: "argument 6 (Lines.name): an array, where string is wanted",
		`[1,"a",1,1,null,"SECRET"]`:         "argument 6 (Lines): a string, where []args.nested is wanted",
		`[1,"a",1,1,null,[],"SECRET"]`:      "argument 7 (Own): a string, where args.grumpy is wanted",
		`[1,"a",1,1,null,[],"",{"Sub":{"OK":"SECRET"}}]`:                   "argument 8 (Nested.Sub.OK): a string, where bool is wanted",
		`[1,"a",1,1,null,[],"",{"Own":"SECRET"}]`:                          "argument 8 (Nested.Own): a value, where args.grumpy is wanted",
		`[1,"a",1,1,null,[],"",{"By":{"SECRET":true}}]`:                    "argument 8 (Nested.By): a number that int cannot hold",
		`[1,"a",1,1,null,[],"",{},{"SECRET":["777"]}]`:                     "argument 9 (By): a string, where int is wanted",
		`[1,"a",1,1,null,[],"",{},null,"SECRET"]`:                          "argument 10 (Raw): a string that []uint8 cannot hold",
		`[1,"a",1,1,null,[],"",{},null,null,{"Size":1},{"Size":"SECRET"}]`: "argument 12 (Rest.Size): a string, where int is wanted",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			_, err := back[contract](t, args)
			require.EqualError(t, err, want)
			argErr, ok := errors.AsType[*Error](err)
			require.True(t, ok)
			require.NotNil(t, argErr.Want)
			require.ErrorIs(t, err, argErr.Err, "who wants the decoder's own words can have them")
		})
	}
	t.Run("more than there is a place for", func(t *testing.T) {
		t.Parallel()
		_, err := back[nested](t, `["a","SECRET","c"]`)
		require.EqualError(t, err, "the job has 3, args.nested takes at most 1")
		argErr, ok := errors.AsType[*Error](err)
		require.True(t, ok)
		require.Equal(t, 2, argErr.Position)
		require.Equal(t, "string", argErr.Got)
		_, err = back[int](t, `[1,2]`)
		require.EqualError(t, err, "the job has 2, int takes at most 1")
		_, err = back[struct{}](t, `[1]`)
		require.EqualError(t, err, "the job has 1, struct {} takes at most 0")
	})
	t.Run("one that is all there is has no field", func(t *testing.T) {
		t.Parallel()
		_, err := back[[]int](t, `[["SECRET"]]`)
		require.EqualError(t, err, "argument 1: a string, where int is wanted")
	})
}
