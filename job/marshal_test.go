package job_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belayq/belay/job"
)

// shouting has a MarshalJSON that calls json.Marshal, as most do.
type shouting string

func (s shouting) MarshalJSON() ([]byte, error) { return json.Marshal("<" + string(s) + "\u2028>") }

// byPointer has a MarshalJSON with a pointer receiver.
type byPointer struct{ n int }

func (p *byPointer) MarshalJSON() ([]byte, error) { return json.Marshal(p.n * 2) }

// verbatim has a MarshalJSON that returns its text.
type verbatim string

func (v verbatim) MarshalJSON() ([]byte, error) { return []byte(v), nil }

func TestMarshal(t *testing.T) {
	t.Parallel()
	var none *int
	var noMap map[string]int
	for _, c := range []struct {
		name string
		v    any
		want string
	}{
		{"null", nil, `null`}, {"bool", true, `true`}, {"int8", int8(-1), `-1`}, {"byte", byte(7), `7`},
		{"nil_pointer", none, `null`}, {"nil_map", noMap, `null`}, {"nil_slice_inside", []any{[]int(nil)}, `[null]`},
		{"nil_slice", []int(nil), `[]`}, {"empty_slice", []int{}, `[]`}, {"empty_map", noMapAny{}, `{}`}, {"array", [2]any{1, nil}, `[1,null]`},
		{"keys_that_are_numbers", map[int]string{2: "b", 10: "a"}, `{"10":"a","2":"b"}`},
		{"bytes", []byte{1, 2}, `"AQI="`}, {"time", time.Unix(0, 0).UTC(), `"1970-01-01T00:00:00Z"`},
		{"struct", struct {
			A float64 `json:"a"`
			B string  `json:"b,omitempty"`
		}{A: 1}, `{"a":1.0}`},
		{"marshaler", shouting("é"), "\"<é\u2028>\""}, {"marshaler_inside", []any{shouting("a")}, "[\"<a\u2028>\"]"},
		{"marshaler_by_pointer", []byPointer{{2}}, `[4]`}, {"big_int", new(big.Int).Lsh(big.NewInt(1), 80), `1208925819614629174706176`},
		{"json_number", json.Number("1.0"), `1.0`}, {"odd_escapes", verbatim(`"\/\u00E9\uD83D\ude00\u0022\u005c\u000a\\u0041"`), "\"/é😀\\\"\\\\\\n\\\\u0041\""},
		{"raw", json.RawMessage(`{"b":1.0,"a":"\u00e9"}`), "{\"b\":1.0,\"a\":\"é\"}"},
		{"raw_with_space", json.RawMessage("{ \"b\" :\n 1.0, \"a\": \"x y\" }\n"), `{"b":1.0,"a":"x y"}`},
		{"raw_nil", json.RawMessage(nil), `null`}, {"zero", 0.0, `0.0`}, {"minus_zero", math.Copysign(0, -1), `-0.0`},
		{"replacement_character", "\ufffd", "\"\ufffd\""}, {"a_backslash_before_u", struct{ S string }{`\ufffd`}, `{"S":"\\ufffd"}`},
	} {
		t.Run("writes_"+c.name, func(t *testing.T) {
			t.Parallel()
			got, err := job.Marshal(c.v)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	t.Run("writes_floats_as_Ruby_does", func(t *testing.T) {
		t.Parallel()
		for f, want := range map[float64]string{
			0.1: "0.1", 1.5: "1.5", -2: "-2.0", 0.0001: "0.0001", 0.00001: "1.0e-05", 1.5e-7: "1.5e-07", 1e14: "100000000000000.0", 1e15: "1.0e+15", 3178780668215438.5: "3178780668215438.5",
			1e16: "1.0e+16", 1e20: "1.0e+20", -1.25e100: "-1.25e+100", 123456789.125: "123456789.125", 5e-324: "5.0e-324",
		} {
			got, err := job.Marshal(f)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	})
}

type noMapAny map[string]any

func TestMarshalArgsRefuses(t *testing.T) {
	t.Parallel()
	ring := map[string]any{}
	ring["self"] = ring
	type pointer *pointer
	var loop pointer
	loop = &loop
	deep := any(1)
	for range job.MaxDepth - 1 {
		deep = []any{deep}
	}
	for _, c := range []struct {
		name, want string
		v          any
	}{
		{"NaN", "write argument 2: NaN has no JSON", math.NaN()},
		{"an_infinity_further_in", `write argument 2: at /a/1: +Inf has no JSON`, map[string]any{"a": []float64{0, math.Inf(1)}}},
		{"NaN_in_a_map_of_a_slice", `write argument 2: at /0/a: NaN has no JSON`, []any{map[string]any{"a": math.NaN()}}},
		{"a_text_further_in", `write argument 2: at /a/1: a string is not valid UTF-8`, map[string]any{"a": []string{"b", "\xff"}}},
		{"a_key_of_texts_that_is_no_UTF_8", "not valid UTF-8", map[string]string{"\xff": "a"}},
		{"a_string_that_is_no_UTF_8", "write argument 2: a string is not valid UTF-8", "\xff"},
		{"a_key_that_is_no_UTF_8", "not valid UTF-8", map[string]int{"\xff": 1}},
		{"such_a_string_in_a_struct", "not valid UTF-8", struct{ S string }{"a\xff"}},
		{"half_a_surrogate_pair", "half a surrogate pair", json.RawMessage(`"\ud800"`)},
		{"half_a_pair_of_a_type_that_writes_itself", "in a job_test.verbatim: a string holds half", verbatim(`["\udc00"]`)},
		{"a_number_that_no_float_holds", "larger than a float64 can hold", json.RawMessage(`[1e400]`)},
		{"NaN_in_a_struct", `at /F: NaN has no JSON`, struct{ F float32 }{float32(math.NaN())}},
		{"such_raw_JSON", "not valid UTF-8", json.RawMessage("\"\xff\"")},
		{"such_raw_JSON_in_a_struct", "not valid UTF-8", struct{ R json.RawMessage }{json.RawMessage("\"\xff\"")}},
		{"keys_of_any_kind", "JSON allows only strings as keys", map[any]any{"a": 1}},
		{"a_function", "a func() has no JSON", func() {}},
		{"a_channel_further_in", "at /0: a chan int has no JSON", []any{make(chan int)}},
		{"a_complex_number", "a complex128 has no JSON", 1i},
		{"raw_text_that_is_no_JSON", "a json.RawMessage is not JSON", json.RawMessage(`{"a":`)},
		{"two_raw_values", "a json.RawMessage is not JSON", json.RawMessage(`1 2`)},
		{"a_map_that_holds_itself", "nested deeper than 1000", ring},
		{"a_pointer_to_itself", "nested deeper than 1000", loop},
		{"one_depth_too_many", "nested deeper than 1000", deep},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := job.MarshalArgs([]any{1, c.v})
			require.ErrorContains(t, err, c.want)
		})
	}
	t.Run("but_not_the_greatest_depth", func(t *testing.T) {
		t.Parallel()
		text, err := job.MarshalArgs(deep.([]any)[:1])
		require.NoError(t, err)
		parse(t, job.Draft{Class: "C", ArgsJSON: text}.Encode())
	})
}

func TestMarshalArgsProperties(t *testing.T) {
	t.Parallel()
	t.Run("what_is_written_means_what_was_given", func(t *testing.T) {
		t.Parallel()
		scalar := rapid.OneOf(
			rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Map(rapid.Float64(), func(f float64) any { return f }),
			rapid.Map(rapid.Bool(), func(b bool) any { return b }), rapid.Just(any(nil)),
		)
		rapid.Check(t, func(t *rapid.T) {
			args := []any{
				rapid.SliceOf(scalar).Draw(t, "slice"), rapid.MapOf(rapid.String(), scalar).Draw(t, "map"), scalar.Draw(t, "scalar"),
			}
			text, err := job.MarshalArgs(args)
			require.NoError(t, err)
			require.NotContains(t, text, "\n")
			var got []any
			require.NoError(t, json.Unmarshal([]byte(text), &got))
			require.Equal(t, args, got)
			j, err := job.Parse(job.Draft{Class: "C", Queue: "q", ArgsJSON: text}.Encode())
			require.NoError(t, err)
			require.Equal(t, text, j.ArgsJSON())
			require.Len(t, j.Args(), len(args))
		})
	})
	t.Run("maps_and_slices_are_written_as_inside_a_struct", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			v := plainValue(t, 4)
			alone, err := job.MarshalArgs([]any{v})
			require.NoError(t, err)
			inside, err := job.Marshal(struct{ V []any }{[]any{v}}) // which the library writes
			require.NoError(t, err)
			require.Equal(t, inside, `{"V":`+alone+`}`)
		})
	})
	t.Run("a_float_always_reads_as_a_float", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			text, err := job.Marshal(rapid.Float64().Draw(t, "f"))
			require.NoError(t, err)
			require.Contains(t, text, ".")
		})
	})
}

// plainValue draws a value of the types that are written without the library, and of some others.
func plainValue(t *rapid.T, depth int) any {
	key := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a", "é", "\ue000", "\U00010000", "<&>", "\u2028", "\"\\\n"}))
	kinds := 8
	if depth > 0 {
		kinds = 12
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.Int().Draw(t, "int")
	case 1:
		return rapid.Float64().Draw(t, "float")
	case 2:
		return map[string]string(nil)
	case 3:
		return []any(nil)
	case 4:
		return rapid.MapOf(key, rapid.String()).Draw(t, "texts")
	case 5:
		return rapid.SliceOf(key).Draw(t, "list")
	case 6:
		return rapid.Int16().Draw(t, "another type")
	case 7:
		return rapid.Bool().Draw(t, "bool")
	case 8, 9:
		values := map[string]any{}
		for range rapid.IntRange(0, 20).Draw(t, "members") {
			values[key.Draw(t, "key")] = plainValue(t, depth-3)
		}
		return values
	default:
		values := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			values = append(values, plainValue(t, depth-1))
		}
		return values
	}
}

func BenchmarkMarshalArgs(b *testing.B) {
	args := []any{12345, "user@example.com"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := job.MarshalArgs(args); err != nil {
			b.Fatal(err)
		}
	}
}

func TestSpellArgs(t *testing.T) {
	t.Parallel()
	deepest := strings.Repeat("[", job.MaxDepth) + strings.Repeat("]", job.MaxDepth)
	many := make([]string, 40) // more names than are compared one by one
	for i := range many {
		many[i] = fmt.Sprintf(`"%d":%d`, i, i)
	}
	object := `[{` + strings.Join(many, ",") + `}]`
	for text, want := range map[string]string{
		`[]`: `[]`, " [ ]\n": `[]`, `[1,"a",null,true,[-10]]`: `[1,"a",null,true,[-10]]`, `["ä€","a.b@e.x -0 {"]`: `["ä€","a.b@e.x -0 {"]`,
		`[1.0]`: `[1.0]`, `[1e5,1.50,-0,-0.0,0.00001]`: `[100000.0,1.5,0,-0.0,1.0e-05]`, `[{}, {"a" : 1}]`: `[{},{"a":1}]`,
		`[{"a":{"x":0.5,"y":[]},"b":"x"}]`: `[{"a":{"x":0.5,"y":[]},"b":"x"}]`, `["\u00e9\n\/"]`: `["é\n/"]`, `["\n\"\\"]`: `["\n\"\\"]`,
		`[{"a":1,"b":2,"\u0061":[1.50,{"x":1,"x":2}]}]`: `[{"a":[1.5,{"x":2}],"b":2}]`, `["\ufffd"]`: "[\"\ufffd\"]",
		object: object, strings.Replace(object, `"39":39`, `"0":1`, 1): strings.NewReplacer(`"0":0`, `"0":1`, `,"39":39`, "").Replace(object),
		deepest[1 : len(deepest)-1]: deepest[1 : len(deepest)-1],
	} {
		got, err := job.SpellArgs(text)
		require.NoError(t, err, "%.40s", text)
		require.Equal(t, want, got, "%.40s", text)
		written, err := job.MarshalArgs([]any{json.RawMessage(text)})
		if len(text) < len(deepest)-2 {
			require.NoError(t, err)
			require.Equal(t, "["+want+"]", written)
		}
	}
	for text, want := range map[string]string{
		"": "not a JSON array", " ": "not a JSON array", `{}`: "not a JSON array", `1`: "not a JSON array", `null`: "not a JSON array", `[1`: "not a JSON array",
		`[1]]`: "not a JSON array", `[1],`: "not a JSON array", `[01]`: "not a JSON array", `[1,]`: "not a JSON array", `[nul]`: "not a JSON array",
		`[{"a"}]`: "not a JSON array", `[{"a":1,}]`: "not a JSON array", `[{1:1}]`: "not a JSON array", "[\"\x01\"]": "not a JSON array", `["\x"]`: "not a JSON array",
		"[\"\xff\"]": "not valid UTF-8", deepest: "nested deeper", `["\ud800"]`: "half a surrogate pair", `[1e400]`: "larger than a float64",
	} {
		_, err := job.SpellArgs(text)
		require.ErrorContains(t, err, want, "%.40q", text)
	}
}
