package args

import (
	"encoding/json"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belayq/belay/job"
)

type plain struct {
	I int64
	U uint64
	S int8
	F float64
	G float32
	T string
	B bool
	L []string
	A [2]bool
	P *string
	Q *float64
}

type further struct {
	Plain plain
	Base  `json:"base"`
	small
	Map   map[string][]*plain
	Bytes []byte
	When  time.Time
	Late  *time.Time
	Big   *big.Int
	Raw   json.RawMessage
	Num   json.Number
}

type trailing struct {
	A int    `json:",omitempty"`
	B string `json:",omitempty"`
	C *int   `json:",omitempty"`
	D bool   `json:",omitzero"`
}

type open struct {
	First string
	Rest  []map[string]int `belay:",rest"`
}

// returns tests that any args are read as they were written.
func returns[T any](args *rapid.Generator[T]) func(*testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			given := args.Draw(t, "args")
			got, err := back[T](t, onTheWire(t, given))
			require.NoError(t, err)
			require.Equal(t, given, got)
		})
	}
}

func TestAnyArgsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	t.Run("an integer", returns(rapid.Int64()))
	t.Run("a natural number", returns(rapid.Uint64()))
	t.Run("a fraction", returns(rapid.Float64()))
	t.Run("a string", returns(rapid.String()))
	t.Run("a list", returns(rapid.Make[[]string]()))
	t.Run("a map", returns(rapid.Make[map[string]*int]()))
	t.Run("a pointer", returns(rapid.Make[*uint16]()))
	t.Run("bytes", returns(rapid.SliceOf(rapid.Byte())))
	t.Run("a struct of plain fields", returns(rapid.Make[plain]()))
	t.Run("a struct of structs and of types that write themselves", returns(rapid.Custom(drawFurther)))
	t.Run("a struct whose last arguments may be left out", returns(rapid.Make[trailing]()))
	t.Run("a struct with a rest", returns(rapid.Map(rapid.Make[open](), func(o open) open {
		if len(o.Rest) == 0 {
			o.Rest = nil // no further arguments are no slice
		}
		return o
	})))
}

func drawFurther(t *rapid.T) further {
	instant := rapid.Map(rapid.Int64Range(-62135596800, 253402300799), func(s int64) time.Time { return time.Unix(s, s&0xfffffff).UTC() })
	return further{
		Plain: rapid.Make[plain]().Draw(t, "plain"),
		Base:  Base{Tenant: rapid.Int().Draw(t, "tenant")},
		small: small{Size: rapid.Int().Draw(t, "size")},
		Map:   rapid.Make[map[string][]*plain]().Draw(t, "map"),
		Bytes: rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"),
		When:  instant.Draw(t, "when"),
		Late:  rapid.Ptr(instant, true).Draw(t, "late"),
		Big:   new(big.Int).Lsh(big.NewInt(rapid.Int64Min(1).Draw(t, "big")), rapid.UintMax(300).Draw(t, "shift")),
		Raw:   json.RawMessage(rapid.SampledFrom([]string{`1.0`, `{"z":9007199254740993,"a":[]}`, `"é"`, `null`}).Draw(t, "raw")),
		Num:   json.Number(rapid.SampledFrom([]string{"1.0", "0", "9007199254740993", "1.0e+300"}).Draw(t, "num")),
	}
}

// Reading any job into a T returns an *Error or a T, and never panics. A T that was read, written and read
// again is equal.
func FuzzFill(f *testing.F) {
	for _, args := range []string{
		`[]`, `[null,null,null]`, `[1,"a",2,1.5,"2026-01-02T03:04:05Z",[{"name":"n"}],"",{"Sub":{"OK":true},"By":{"1":true}},{"a":[1]},"AQI=",{"Size":1}]`,
		`[42,1.0,"\ud800",{"z":1.0},{"k":9007199254740993},{"NAME":"n"},"2026-01-02T03:04:05.5+01:00",[1]]`, `[-128,"\u00e9","x\\"]`,
		`["x",{"a":1},{}]`, `[ 1 , "b" ]`, `[true,false]`, `[1e2,-0]`, `[128]`, `[{"I":1,"A":[true,true,true]}]`, `[1],"args":[2,3]`,
	} {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, args string) {
		parsed, err := job.Parse(`{"class":"A","jid":"1","args":` + args + `}`)
		if err != nil {
			return
		}
		refill[contract](t, parsed.Args())
		refill[everything](t, parsed.Args())
		refill[plain](t, parsed.Args())
		refill[open](t, parsed.Args())
		refill[trailing](t, parsed.Args())
		refill[any](t, parsed.Args())
		for _, arg := range parsed.Args() {
			quickIsExact[int64](t, arg)
			quickIsExact[int8](t, arg)
			quickIsExact[string](t, arg)
			quickIsExact[bool](t, arg)
			quickIsExact[Word](t, arg)
		}
	})
}

func refill[T any](t *testing.T, args []string) {
	t.Helper()
	var first T
	if err := shapeOf[T](t).Fill(reflect.ValueOf(&first).Elem(), args); err != nil {
		var argErr *Error
		require.ErrorAs(t, err, &argErr)
		require.NotEmpty(t, argErr.Error())
		return
	}
	if _, err := job.Marshal(json.RawMessage("[" + strings.Join(args, ",") + "]")); err != nil {
		return // half a surrogate pair, or a number that no float holds: it can be read, and is not written again
	}
	written := onTheWire(t, first)
	second, err := back[T](t, written)
	require.NoError(t, err)
	require.Equal(t, written, onTheWire(t, second))
}

// quickIsExact tests that the fast path reads and refuses the same texts as encoding/json.
func quickIsExact[T any](t *testing.T, arg string) {
	t.Helper()
	s := shapeOf[T](t)
	require.NotNil(t, s.places[0].read.quickly)
	var got, want T
	gotErr, wantErr := s.Fill(reflect.ValueOf(&got).Elem(), []string{arg}), json.Unmarshal([]byte(arg), &want)
	require.Equal(t, wantErr == nil, gotErr == nil, "%s: %v, %v", arg, wantErr, gotErr)
	require.Equal(t, want, got)
}
