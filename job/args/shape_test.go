package args

import (
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

type nested struct {
	Name string `json:"name"`
}

type everything struct {
	UserID  int64
	Ratio   float64
	Name    *string
	Raw     json.RawMessage
	Map     map[string]any
	Nested  nested
	At      time.Time
	Ignored string `json:"-"`
	List    []int
	hidden  int `belay:"-"`
}

// shapeOf returns the shape of a valid T.
func shapeOf[T any](t require.TestingT) *Shape {
	s, err := For(reflect.TypeFor[T]())
	require.NoError(t, err)
	return s
}

// onTheWire returns the args that a push stores, and back the value that a handler gets for them.
func onTheWire[T any](t require.TestingT, args T) string {
	text, err := job.MarshalArgs(shapeOf[T](t).Write(reflect.ValueOf(&args).Elem()))
	require.NoError(t, err)
	return text
}

func back[T any](t require.TestingT, argsJSON string) (T, error) {
	parsed, err := job.Parse(`{"class":"A","jid":"1","args":` + argsJSON + `}`)
	require.NoError(t, err)
	var args T
	err = shapeOf[T](t).Fill(reflect.ValueOf(&args).Elem(), parsed.Args())
	return args, err
}

// bothWays tests that args are written as this text, and that the text is read as these args.
func bothWays[T any](t *testing.T, text string, args T) {
	t.Helper()
	require.Equal(t, text, onTheWire(t, args))
	got, err := back[T](t, text)
	require.NoError(t, err)
	require.Equal(t, args, got)
}

// Base is embedded, and so are small and word.
type Base struct {
	Tenant int
	note   string `belay:"-"`
}

type small struct{ Size int }

type hidden int

// Word is embedded and is not a struct.
type Word string

func TestArgs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)
	name := "n"
	t.Run("exported fields in order are the positional arguments", func(t *testing.T) {
		t.Parallel()
		text := onTheWire(t, everything{UserID: math.MaxInt64, Ratio: 1, Raw: json.RawMessage(`{"z":1.0}`), Map: map[string]any{"k": 1},
			Nested: nested{"n"}, At: at, Ignored: "x", List: []int{1}, hidden: 1})
		require.Equal(t, `[9223372036854775807,1.0,null,{"z":1.0},{"k":1},{"name":"n"},"2026-01-02T03:04:05.123456789Z",[1]]`, text)
		args, err := back[everything](t, text)
		require.NoError(t, err)
		require.Equal(t, everything{UserID: math.MaxInt64, Ratio: 1, Raw: json.RawMessage(`{"z":1.0}`), Map: map[string]any{"k": json.Number("1")},
			Nested: nested{"n"}, At: at, List: []int{1}}, args)
	})
	t.Run("missing trailing arguments and nulls are zero values", func(t *testing.T) {
		t.Parallel()
		args, err := back[everything](t, `[42,null,null]`)
		require.NoError(t, err)
		require.Equal(t, everything{UserID: 42}, args)
		args, err = back[everything](t, `[42,1,"x"]`)
		require.NoError(t, err)
		require.Equal(t, "x", *args.Name)
		nothing, err := back[everything](t, `[null,null,null,null,null,null,null,null]`)
		require.NoError(t, err)
		require.Equal(t, everything{Raw: json.RawMessage(`null`)}, nothing)
		five, err := back[int](t, `[]`)
		require.NoError(t, err)
		require.Zero(t, five)
	})
	t.Run("what is no struct, or writes itself, is one argument", func(t *testing.T) {
		t.Parallel()
		bothWays(t, `[5]`, 5)
		bothWays(t, `["x"]`, "x")
		bothWays(t, `[true]`, true)
		bothWays(t, `[1.0]`, 1.0)
		bothWays(t, `["2026-01-02T03:04:05.123456789Z"]`, at)
		bothWays(t, `[[1,2]]`, []int{1, 2})
		bothWays(t, `[[]]`, []int{})
		bothWays(t, `[null]`, []int(nil))
		bothWays(t, `[[1,2]]`, [2]int{1, 2})
		bothWays(t, `["AQI="]`, []byte{1, 2})
		bothWays(t, `[{"a":1,"b":2}]`, map[string]int{"b": 2, "a": 1})
		bothWays(t, `[{"a":[{"name":"n"}]}]`, map[string][]nested{"a": {{"n"}}})
		bothWays(t, `[{"b":1.0}]`, json.RawMessage(`{"b":1.0}`))
		bothWays[any](t, `[null]`, nil)
		bothWays[any](t, `[["x",true,{}]]`, []any{"x", true, map[string]any{}})
		bothWays(t, `["n"]`, &name)
		bothWays(t, `[null]`, (*string)(nil))
		bothWays(t, `[1.5]`, json.Number("1.5"))
		bothWays(t, `["x"]`, Word("x"))
	})
	t.Run("an empty struct is no argument", func(t *testing.T) {
		t.Parallel()
		bothWays(t, `[]`, struct{}{})
	})
	t.Run("numbers keep all their digits, in an any as a json.Number", func(t *testing.T) {
		t.Parallel()
		bothWays(t, `[9007199254740993]`, int64(9007199254740993))
		bothWays(t, `[18446744073709551615]`, uint64(math.MaxUint64))
		bothWays[any](t, `[9007199254740993]`, json.Number("9007199254740993"))
		bothWays[any](t, `[{"a":[1.0]}]`, map[string]any{"a": []any{json.Number("1.0")}})
		bothWays(t, `[[{"V":1.0}]]`, []struct{ V any }{{json.Number("1.0")}})
	})
}

func TestArgsOfStructs(t *testing.T) {
	t.Parallel()
	t.Run("the fields of an embedded struct stand in its place", func(t *testing.T) {
		t.Parallel()
		type args struct {
			First string
			Base
			small
			Word
			hidden `belay:"-"`
			Last   int
		}
		bothWays(t, `["a",7,3,"w",9]`, args{First: "a", Base: Base{Tenant: 7}, small: small{3}, Word: "w", Last: 9})
		require.Equal(t, `["a",7,3,"w",9]`, onTheWire(t, args{First: "a", Base: Base{Tenant: 7, note: "x"}, small: small{3}, Word: "w", hidden: 5, Last: 9}))
	})
	t.Run("one that has a name in JSON is an object", func(t *testing.T) {
		t.Parallel()
		type args struct {
			Base `json:"base"`
			Last int
		}
		bothWays(t, `[{"Tenant":7},9]`, args{Base{Tenant: 7}, 9})
	})
	t.Run("a nested struct is an object, by encoding/json's rules", func(t *testing.T) {
		t.Parallel()
		type line struct {
			SKU   string         `json:"sku"`
			Count int            `json:"count,omitempty"`
			By    map[int]string `json:"by,omitempty"`
			Own   string         `json:"-"`
			Raw   json.RawMessage
			Sub   []line
		}
		type args struct {
			ID    int
			Lines []line
			One   *line
		}
		bothWays(t, `[1,[{"sku":"x","by":{"2":"y"},"Raw":1.0,"Sub":[{"sku":"z","Raw":[],"Sub":null}]}],null]`, args{ID: 1, Lines: []line{
			{SKU: "x", By: map[int]string{2: "y"}, Raw: json.RawMessage("1.0"), Sub: []line{{SKU: "z", Raw: json.RawMessage("[]")}}},
		}})
	})
	t.Run("fields that are none, by either tag, keep their zero value", func(t *testing.T) {
		t.Parallel()
		type args struct {
			A      int
			Cache  chan int `belay:"-"`
			Lock   func()   `json:"-"`
			hidden int      `belay:"-"`
			_      int
			B      int
		}
		bothWays(t, `[1,2]`, args{A: 1, B: 2})
		require.Equal(t, `[1,2]`, onTheWire(t, args{A: 1, Cache: make(chan int), hidden: 3, B: 2}))
	})
	t.Run("a rest takes what stands behind the fields, and gives it again", func(t *testing.T) {
		t.Parallel()
		type args struct {
			ID   int
			Rest []json.RawMessage `belay:",rest"`
		}
		bothWays(t, `[1,2.0,"x",null,{"a":[]}]`, args{1, []json.RawMessage{[]byte(`2.0`), []byte(`"x"`), []byte(`null`), []byte(`{"a":[]}`)}})
		bothWays(t, `[1]`, args{ID: 1})
		type sum struct {
			Numbers []int `belay:",rest"`
		}
		bothWays(t, `[1,2,3]`, sum{[]int{1, 2, 3}})
		bothWays(t, `[]`, sum{})
		type sizes struct {
			Sizes []big.Int `belay:",rest"`
		}
		bothWays(t, `[1,2]`, sizes{[]big.Int{*big.NewInt(1), *big.NewInt(2)}})
	})
	t.Run("what is empty and may be omitted is left out where nothing follows", func(t *testing.T) {
		t.Parallel()
		type args struct {
			ID   int       `json:",omitempty"`
			Name string    `json:"name,omitempty"`
			Min  *int      `json:",omitempty"`
			When time.Time `json:",omitzero"`
			Sub  nested    `json:",omitzero"`
			List []int     `json:",omitempty"`
		}
		bothWays(t, `[]`, args{})
		bothWays(t, `[0,"x"]`, args{Name: "x"})
		bothWays(t, `[0,"",null,"0001-01-01T00:00:00Z",{"name":"n"}]`, args{Sub: nested{"n"}})
		require.Equal(t, `[]`, onTheWire(t, args{List: []int{}}))
		type mixed struct {
			Name string `json:",omitempty"`
			ID   int
		}
		bothWays(t, `["",0]`, mixed{})
		type rest struct {
			Name string `json:",omitempty"`
			Rest []int  `belay:",rest"`
		}
		bothWays(t, `["",1]`, rest{Rest: []int{1}})
		bothWays(t, `[]`, rest{})
	})
}
