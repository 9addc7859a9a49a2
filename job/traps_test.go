package job_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// TestTraps tests the mistakes that an independent writer of Sidekiq's payloads can make, one by one. The traps
// of the fields that a failure adds are tested in package retry.
func TestTraps(t *testing.T) {
	t.Parallel()
	whole := time.Unix(1700000000, 0)

	t.Run("01_seconds_without_a_fraction_are_read_as_milliseconds", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "1700000000.0", job.Stamp(whole, job.Seconds))
		require.Equal(t, "1795240473.7967563", job.Stamp(time.Unix(1795240473, 796756300), job.Seconds))
		// And programs may write them.
		at, ok := parse(t, payload(`"created_at":1700000000`)).CreatedAt()
		require.True(t, ok)
		require.True(t, at.Equal(whole), at)
	})
	t.Run("02_milliseconds_with_a_dot_or_exponent_are_read_as_seconds", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "1700000000000", job.Stamp(whole, job.Millis))
		require.Equal(t, "1700000000999", job.Stamp(whole.Add(999999*time.Microsecond), job.Millis))
		at, ok := parse(t, payload(`"created_at":1.7e12`)).CreatedAt()
		require.True(t, ok)
		require.Equal(t, int64(1.7e12), at.Unix(), "as Ruby reads it")
		for _, second := range []int64{0, 1, 99999999999, -5, 253402300799} {
			require.NotContains(t, job.Stamp(time.Unix(second, 1000), job.Seconds), "e")
		}
	})
	t.Run("04_integers_beyond_a_float_keep_every_digit", func(t *testing.T) {
		t.Parallel()
		text, err := job.MarshalArgs([]any{int64(9007199254740993), uint64(18446744073709551615), []int64{-9223372036854775808}})
		require.NoError(t, err)
		require.Equal(t, `[9007199254740993,18446744073709551615,[-9223372036854775808]]`, text)
		args := `[9007199254740993,12345678901234567890,1.0,1e21,-0,0.1,[],{},[[],{}],{"a":[]}]`
		j := parse(t, `{"class":"C","jid":"j","args":`+args+`}`)
		require.Equal(t, args, parse(t, j.Patch(job.SetInt("retry_count", 0))).ArgsJSON())
	})
	t.Run("05_a_float_stays_a_float", func(t *testing.T) {
		t.Parallel()
		text, err := job.MarshalArgs([]any{1.0, float32(2), []float64{3}, map[string]any{"a": 4.0}, new(5.0)})
		require.NoError(t, err)
		require.Equal(t, `[1.0,2.0,[3.0],{"a":4.0},5.0]`, text)
	})
	t.Run("06_what_Ruby_does_not_escape_is_not_escaped", func(t *testing.T) {
		t.Parallel()
		text, err := job.MarshalArgs([]any{"<a href='/x'>&é\u2028\u2029\x7f</a>", struct{ S string }{"<\u2028>"}})
		require.NoError(t, err)
		require.Equal(t, "[\"<a href='/x'>&é\u2028\u2029\x7f</a>\",{\"S\":\"<\u2028>\"}]", text)
	})
	t.Run("07_text_is_what_Ruby_would_generate_from_it", func(t *testing.T) {
		t.Parallel()
		text, err := job.MarshalArgs([]any{"\b\f\n\r\t\x00\x1f\"\\/", []any{1, "b"}, map[string]int{"z": 1, "a": 2}})
		require.NoError(t, err)
		require.Equal(t, `["\b\f\n\r\t\u0000\u001f\"\\/",[1,"b"],{"a":2,"z":1}]`, text)
	})
	t.Run("08_a_payload_is_one_line", func(t *testing.T) {
		t.Parallel()
		args, err := job.MarshalArgs([]any{"a\nb", struct{ S string }{"c\r\nd"}})
		require.NoError(t, err)
		text := job.Draft{Class: "A\nB", Queue: "q\n", ArgsJSON: args, Extra: []job.Edit{job.SetString("x\n", "y\n")}}.Encode()
		require.NotContains(t, text, "\n")
		require.NotContains(t, text, "\r")
		parse(t, text)
	})
	t.Run("09_no_args_are_an_empty_array", func(t *testing.T) {
		t.Parallel()
		text, err := job.MarshalArgs(nil)
		require.NoError(t, err)
		require.Equal(t, "[]", text)
		text, err = job.Marshal([]any(nil))
		require.NoError(t, err)
		require.Equal(t, "[]", text)
		require.Contains(t, job.Draft{Class: "C"}.Encode(), `"args":[]`)
	})
	t.Run("10_at_is_never_stored", func(t *testing.T) {
		t.Parallel()
		_, ok := parse(t, job.Draft{Class: "C", CreatedAt: whole}.Encode()).Field("at")
		require.False(t, ok)
		require.ErrorContains(t, job.CheckExtra(job.Edit{Name: "at", JSON: "null"}), "never stored")
	})
	t.Run("12_a_count_of_0_and_of_minus_1_are_counts", func(t *testing.T) {
		t.Parallel()
		for _, want := range []int{0, -1} {
			n, ok := parse(t, payload(`"retry_count":`+strconv.Itoa(want))).RetryCount()
			require.True(t, ok)
			require.Equal(t, want, n)
		}
		require.Contains(t, parse(t, payload("")).Patch(job.SetInt("retry_count", 0)), `"retry_count":0`)
	})
	t.Run("13_tags_are_an_array_and_cattr_no_scalar", func(t *testing.T) {
		t.Parallel()
		for _, good := range []job.Edit{
			{Name: "tags", JSON: `["a"]`}, {Name: "tags", JSON: `null`}, {Name: "cattr", JSON: `{"a":1}`}, {Name: "cattr", JSON: ` []`},
		} {
			require.NoError(t, job.CheckExtra(good), good)
		}
		for _, bad := range []job.Edit{
			{Name: "tags", JSON: `"x"`}, {Name: "tags", JSON: `{}`}, {Name: "tags", JSON: `[1]`}, {Name: "cattr", JSON: `"x"`}, {Name: "cattr", JSON: `1`},
		} {
			require.Error(t, job.CheckExtra(bad), bad)
		}
		parse(t, payload(`"tags":null`))
	})
	t.Run("15_a_timestamp_that_is_a_string_is_none", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{`"1700000000.0"`, `""`, `null`, `true`, `[]`, `1e300`, `99999999999999999999`} {
			_, ok := parse(t, payload(`"created_at":`+text)).CreatedAt()
			require.False(t, ok, text)
		}
	})
	t.Run("16_a_string_that_is_no_UTF_8_cannot_reach_a_payload", func(t *testing.T) {
		t.Parallel()
		patched := parse(t, payload("")).Patch(job.SetString("error_message", "a\xff\x00日\xe6"))
		message, _ := parse(t, patched).Text("error_message")
		require.Equal(t, "a\ufffd\x00日\ufffd", message)
		parse(t, job.Draft{Class: "\xff", Queue: "\xfe", JID: "\xfd"}.Encode())
	})
	t.Run("20_false_and_0_and_odd_retries_are_three_things", func(t *testing.T) {
		t.Parallel()
		kinds := map[job.RetryKind]bool{}
		for _, text := range []string{`false`, `0`, `"3"`} {
			kinds[parse(t, payload(`"retry":`+text)).RetryRule().Kind] = true
		}
		require.Len(t, kinds, 3)
	})
	t.Run("22_retry_for_is_a_whole_number_that_Ruby_accepts", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, job.CheckExtra(job.Edit{Name: "retry_for", JSON: "1000000000"}))
		for _, text := range []string{"1000000001", "1.5", `"60"`, "-1", "true"} {
			require.Error(t, job.CheckExtra(job.Edit{Name: "retry_for", JSON: text}), text)
		}
	})
	t.Run("26_a_patch_works_from_the_original_bytes", func(t *testing.T) {
		t.Parallel()
		raw := `{ "bid" : "b-1",  "class":"\u0043", "args":[ 1.0 , "\u00e9" ],"cattr":[["a",{}]] ,"jid":"j", "locale":"de" }`
		got := parse(t, raw).Patch(job.SetString("queue", "low"))
		require.Equal(t, strings.TrimSuffix(raw, " }")+`,"queue":"low" }`, got)
	})
}
