package job_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// payload returns a valid payload with these additional fields.
func payload(fields string) string {
	text := `{"class":"C","args":[],"jid":"0123456789abcdef01234567"`
	if fields != "" {
		text += "," + fields
	}
	return text + "}"
}

func parse(t testing.TB, raw string) *job.Job {
	t.Helper()
	j, err := job.Parse(raw)
	require.NoError(t, err, raw)
	return j
}

func golden(t testing.TB, name string) *job.Job {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return parse(t, strings.TrimSuffix(string(text), "\n"))
}

func TestParse(t *testing.T) {
	t.Parallel()
	unreadable := []struct{ name, raw, reason string }{
		{"nothing", "", "not a JSON object"},
		{"a_scalar", `"x"`, "not a JSON object"},
		{"null", "null", "not a JSON object"},
		{"an_array", "[]", "not a JSON object"},
		{"binary", "\x00\x00", "not a JSON object"},
		{"half_an_object", `{"class":"C"`, "the JSON is cut off at byte 12"},
		{"two_objects", payload("") + payload(""), "invalid JSON at byte 56"},
		{"a_bad_token", `{"class":yes}`, "invalid JSON at byte 9"},
		{"a_byte_that_is_no_UTF_8", "{\"class\":\"\xff\"}", "invalid UTF-8 at byte 10"},
		{"a_payload_too_deep", payload(`"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000)), "nested deeper than 1000 at byte 1059"},
		{"no_class", `{"args":[],"jid":"a"}`, "class is missing"},
		{"class_in_capitals", `{"Class":"C","args":[],"jid":"a"}`, "class is missing"},
		{"an_empty_class", `{"class":"","args":[],"jid":"a"}`, "class is not a name"},
		{"a_null_class", `{"class":null,"args":[],"jid":"a"}`, "class is not a name"},
		{"no_jid", `{"class":"C","args":[]}`, "jid is missing"},
		{"a_null_jid", `{"class":"C","args":[],"jid":null}`, "jid is not a string"},
		{"a_jid_that_is_a_number", `{"class":"C","args":[],"jid":7}`, "jid is not a string"},
		{"no_args", `{"class":"C","jid":"a"}`, "args is missing"},
		{"null_args", `{"class":"C","args":null,"jid":"a"}`, "args is not an array"},
		{"args_that_are_an_object", `{"class":"C","args":{},"jid":"a"}`, "args is not an array"},
		{"a_count_that_is_a_string", payload(`"retry_count":"1"`), "retry_count is not an integer"},
		{"a_count_with_a_fraction", payload(`"retry_count":1.0`), "retry_count is not an integer"},
		{"a_count_with_an_exponent", payload(`"retry_count":1e1`), "retry_count is not an integer"},
		{"the_last_of_two_classes_bad", payload(`"class":0`), "class is not a name"},
	}
	for _, c := range unreadable {
		t.Run("refuses_"+c.name, func(t *testing.T) {
			t.Parallel()
			_, err := job.Parse(c.raw)
			var unreadable *job.UnreadableError
			require.ErrorAs(t, err, &unreadable)
			require.Equal(t, c.reason, unreadable.Reason)
		})
	}
	for _, fields := range []string{
		``, `"queue":null`, `"queue":7`, `"retry":"25"`, `"retry":{}`, `"retry_count":null`, `"retry_count":99999999999999999999`, `"retry_for":"soon"`,
		`"retry_queue":[]`, `"dead":"no"`, `"backtrace":"5"`, `"created_at":"yesterday"`, `"failed_at":{}`,
		`"interrupted_count":"x"`, `"tags":null`, `"x_future":{"a":[1]}`, `"at":null`, `"wrapped":false`,
	} {
		t.Run("tolerates_"+fields, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, payload(fields), parse(t, payload(fields)).Raw())
		})
	}
	t.Run("reads_names_written_with_escapes_and_the_last_of_duplicates", func(t *testing.T) {
		t.Parallel()
		j := parse(t, `{"jid":"a","\u0063lass":"\u0043\u00e9","args":[1],"jid":"b","args":[ 2 , "x" ]}`)
		require.Equal(t, "Cé", j.Class())
		require.Equal(t, "b", j.JID())
		require.Equal(t, `[ 2 , "x" ]`, j.ArgsJSON())
		require.Equal(t, []string{"2", `"x"`}, j.Args())
	})
}

func TestEnvelope(t *testing.T) {
	t.Parallel()
	t.Run("reads_what_Sidekiq_6_wrote", func(t *testing.T) {
		t.Parallel()
		j := golden(t, "sidekiq-6.4.json")
		require.Equal(t, "BadJob", j.Class())
		require.Equal(t, "default", j.Queue())
		require.Equal(t, "81a3bda6f6b71c4e32642ff8", j.JID())
		require.Equal(t, []string{`{"k":1.5}`}, j.Args())
		require.Equal(t, job.RetryRule{Kind: job.RetryLimit, Limit: 3}, j.RetryRule())
		lines, all := j.Backtrace()
		require.Equal(t, 2, lines)
		require.False(t, all)
		at, ok := j.EnqueuedAt()
		require.True(t, ok)
		require.WithinDuration(t, time.Unix(1795240473, 796769100), at, time.Microsecond)
		message, ok := j.Text("error_message")
		require.True(t, ok)
		require.Equal(t, "boom <é>", message)
	})
	t.Run("reads_what_Sidekiq_7_wrote", func(t *testing.T) {
		t.Parallel()
		j := golden(t, "sidekiq-7.3.json")
		require.Equal(t, "WelcomeMailer", j.DisplayClass())
		require.Equal(t, job.RetryRule{Kind: job.RetryDefault}, j.RetryRule())
		d, ok := j.RetryFor()
		require.True(t, ok)
		require.Equal(t, 48*time.Hour, d)
		for _, field := range []string{"created_at", "enqueued_at", "failed_at", "retried_at"} {
			text, _ := j.Field(field)
			require.Regexp(t, `^\d{10}\.\d+$`, text, "seconds, in %s", field)
		}
		n, ok := j.RetryCount()
		require.True(t, ok)
		require.Equal(t, 2, n)
	})
	t.Run("reads_what_Sidekiq_8_wrote", func(t *testing.T) {
		t.Parallel()
		j := golden(t, "sidekiq-8.1.json")
		for _, field := range []string{"created_at", "enqueued_at", "failed_at"} {
			text, _ := j.Field(field)
			require.Regexp(t, `^\d{13}$`, text, "milliseconds, in %s", field)
		}
		require.Equal(t, []string{"9007199254740993", "1.0", `"x/y"`}, j.Args())
		at, ok := j.FailedAt()
		require.True(t, ok)
		require.True(t, at.Equal(time.UnixMilli(1795240474100)), at)
		n, ok := j.RetryCount()
		require.True(t, ok)
		require.Equal(t, -1, n)
		raw, ok := j.Field("cattr")
		require.True(t, ok)
		require.Equal(t, `[[{"_aj_serialized":"ActiveJob::Serializers::SymbolSerializer","value":"user_id"},1]]`, raw)
	})
	t.Run("counts_failed_runs", func(t *testing.T) {
		t.Parallel()
		for count, want := range map[string]int{
			"": 0, `"retry_count":null`: 0, `"retry_count":-1`: 0, `"retry_count":-7`: 0, `"retry_count":0`: 1, `"retry_count":4`: 5,
			fmt.Sprintf(`"retry_count":%d`, math.MaxInt): math.MaxInt,
		} {
			require.Equal(t, want, parse(t, payload(count)).FailedRuns(), count)
		}
	})
	t.Run("says_nothing_where_the_payload_says_nothing", func(t *testing.T) {
		t.Parallel()
		j := parse(t, payload(""))
		require.Empty(t, j.Queue())
		require.Empty(t, j.RetryQueue())
		require.Equal(t, []string{}, j.Args())
		require.Equal(t, job.RetryRule{}, j.RetryRule())
		require.True(t, j.KeepDead())
		require.Zero(t, j.InterruptedCount())
		_, ok := j.RetryCount()
		require.False(t, ok)
		_, ok = j.RetryFor()
		require.False(t, ok)
		_, ok = j.CreatedAt()
		require.False(t, ok)
		_, ok = j.Field("x")
		require.False(t, ok)
		_, ok = j.Text("args")
		require.False(t, ok)
	})
}

func TestRetryRule(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]job.RetryRule{
		`true`: {}, `null`: {}, `"3"`: {}, `3.0`: {}, `[]`: {},
		`false`:                {Kind: job.RetryNever},
		`0`:                    {Kind: job.RetryLimit},
		`7`:                    {Kind: job.RetryLimit, Limit: 7},
		`-1`:                   {Kind: job.RetryLimit, Limit: -1},
		`99999999999999999999`: {Kind: job.RetryLimit, Limit: 1<<63 - 1},
	} {
		require.Equal(t, want, parse(t, payload(`"retry":`+text)).RetryRule(), text)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	t.Run("only_a_literal_false_does_not_keep_the_dead", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]bool{`false`: false, `true`: true, `null`: true, `0`: true, `"false"`: true} {
			require.Equal(t, want, parse(t, payload(`"dead":`+text)).KeepDead(), text)
		}
	})
	t.Run("backtrace_is_none_some_or_all", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]int{`false`: 0, `null`: 0, `0`: 0, `-3`: 0, `20`: 20, `"5"`: 0} {
			lines, all := parse(t, payload(`"backtrace":`+text)).Backtrace()
			require.False(t, all)
			require.Equal(t, want, lines, text)
		}
		_, all := parse(t, payload(`"backtrace":true`)).Backtrace()
		require.True(t, all)
	})
	t.Run("retry_for_is_seconds_and_never_overflows", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]time.Duration{
			`0`: 0, `60`: time.Minute, `1.5`: 1500 * time.Millisecond, `-1`: -time.Second,
			`1000000000`: 1e9 * time.Second, `1e300`: 1<<63 - 1, `-1e999`: -1 << 63,
		} {
			d, ok := parse(t, payload(`"retry_for":`+text)).RetryFor()
			require.True(t, ok, text)
			require.Equal(t, want, d, text)
		}
		for _, text := range []string{`null`, `false`, `true`, `"60"`, `[]`} {
			_, ok := parse(t, payload(`"retry_for":`+text)).RetryFor()
			require.False(t, ok, text)
		}
	})
	t.Run("display_class_is_the_most_telling_name_there_is", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "C", parse(t, payload(`"wrapped":null`)).DisplayClass())
		require.Equal(t, "W", parse(t, payload(`"wrapped":"W"`)).DisplayClass())
		require.Equal(t, "D", parse(t, payload(`"wrapped":"W","display_class":"D"`)).DisplayClass())
	})
	t.Run("interrupted_count_reads_as_none_when_odd", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]int{`2`: 2, `-1`: 0, `"2"`: 0, `2.0`: 0, `null`: 0} {
			require.Equal(t, want, parse(t, payload(`"interrupted_count":`+text)).InterruptedCount(), text)
			require.Equal(t, want+1, parse(t, payload(`"interrupted_count":`+text)).InterruptedAgain(), text)
		}
		require.Equal(t, 1<<31, parse(t, payload(`"interrupted_count":99999999999`)).InterruptedAgain(), "it cannot grow for ever")
	})
}

func TestSplitArgs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`[]`: {}, ` [ ] `: {}, `[1]`: {"1"}, " [1 ,\n{\"a\":[1,2]} , \"x,]\"] ": {"1", `{"a":[1,2]}`, `"x,]"`},
	} {
		got, err := job.SplitArgs(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{``, ` `, `{}`, `null`, `1`, `[`, `[1`, `[1,]`, `[1]x`, `["SECRET"`, `"[1]"`} {
		_, err := job.SplitArgs(text)
		require.EqualError(t, err, "the arguments are not a JSON array", text)
	}
}
