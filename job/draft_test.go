package job_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belayq/belay/job"
)

func TestDraft(t *testing.T) {
	t.Parallel()
	at := time.Unix(1795240473, 796756300)
	t.Run("writes_the_fields_in_Ruby's_order", func(t *testing.T) {
		t.Parallel()
		d := job.Draft{
			Class: "BadJob", Queue: "default", JID: "81a3bda6f6b71c4e32642ff8", ArgsJSON: `[{"k":1.5}]`, Retry: "3",
			CreatedAt: at, EnqueuedAt: at.Add(12800 * time.Nanosecond),
			Extra: []job.Edit{job.SetInt("backtrace", 2), job.Remove("x"), {Name: "tags", JSON: `["a","b"]`}},
		}
		want := golden(t, "sidekiq-6.4.json").Patch(job.Remove("error_message"), job.Remove("error_class"),
			job.Remove("failed_at"), job.Remove("retry_count"))
		require.Equal(t, want, d.Encode())
	})
	t.Run("writes_milliseconds_if_configured", func(t *testing.T) {
		t.Parallel()
		got := job.Draft{Class: "C", Queue: "q", JID: "j", CreatedAt: at, Unit: job.Millis}.Encode()
		require.Equal(t, `{"retry":true,"queue":"q","args":[],"class":"C","jid":"j","created_at":1795240473796}`, got)
	})
	t.Run("draws_a_jid_when_it_has_none", func(t *testing.T) {
		t.Parallel()
		j := parse(t, job.Draft{Class: "C"}.Encode())
		require.Regexp(t, `^[0-9a-f]{24}$`, j.JID())
		first := job.NewJID()
		require.NotEqual(t, first, job.NewJID())
	})
	t.Run("reads_back_as_it_was_drafted", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			d := job.Draft{
				Class: rapid.StringN(1, 20, -1).Draw(t, "class"), Queue: rapid.String().Draw(t, "queue"),
				JID: rapid.StringN(1, 20, -1).Draw(t, "jid"), Unit: rapid.SampledFrom([]job.TimeUnit{job.Seconds, job.Millis}).Draw(t, "unit"),
				CreatedAt: time.UnixMilli(rapid.Int64Range(1e12, 4e12).Draw(t, "created")),
			}
			j, err := job.Parse(d.Encode())
			require.NoError(t, err)
			require.Equal(t, d.Class, j.Class())
			require.Equal(t, d.Queue, j.Queue())
			require.Equal(t, d.JID, j.JID())
			created, ok := j.CreatedAt()
			require.True(t, ok)
			require.WithinDuration(t, d.CreatedAt, created, time.Microsecond)
			_, ok = j.EnqueuedAt()
			require.False(t, ok)
		})
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	good := []string{
		"default", "a:b", "a_b", "{x}", "a}b{", "*", "[q]", "q?", "working:queue:x:h:1:ab", "h:1:deadbeef", "é", "日本",
		"with space", strings.Repeat("q", 200), strings.Repeat("q", 255), ".", "..", "%2F", "Mail::Welcome", `"\`,
	}
	for _, name := range good {
		require.NoError(t, job.CheckQueue(name), name)
		require.NoError(t, job.CheckClass(name), name)
	}
	bad := map[string]string{
		"": "is empty", "a\nb": "control character (U+000A)", "\x00": "control character", "a\x7f": "control character",
		"\u0085": "control character (U+0085)", "a\xff": "not valid UTF-8", strings.Repeat("é", 128): "256 bytes long; at most 255",
	}
	for name, want := range bad {
		require.ErrorContains(t, job.CheckQueue(name), want)
		require.ErrorContains(t, job.CheckClass(name), want)
	}
	require.ErrorContains(t, job.CheckQueue(""), "the name of the queue")
	require.ErrorContains(t, job.CheckClass(""), "the name of the class")

	for _, e := range []job.Edit{{Name: "bid", JSON: `"b"`}, {Name: "tags", JSON: `[]`}, {Name: "x y", JSON: `{"a":[1.0]}`}} {
		require.NoError(t, job.CheckExtra(e), e)
	}
	for _, e := range []job.Edit{
		{Name: "", JSON: "1"}, {Name: "class", JSON: `"C"`}, {Name: "retry", JSON: "1"}, {Name: "x", JSON: ""}, {Name: "x", JSON: "{"},
		{Name: "x", JSON: "\"\xff\""}, {Name: "\xff", JSON: "1"}, {Name: "x", JSON: "1 2"},
	} {
		require.Error(t, job.CheckExtra(e), e)
	}
}

// A payload for Sidekiq 8 has floats as its JSON writes them; see testdata. Strings do not change.
func TestFloatsAreThoseOfTheVersionOfSidekiq(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/floats.json")
	require.NoError(t, err)
	var floats []struct {
		ToS     string `json:"to_s"`
		JSON216 string `json:"json_2_16"`
	}
	require.NoError(t, json.Unmarshal(text, &floats))
	require.NotEmpty(t, floats)
	for _, f := range floats {
		args, err := job.MarshalArgs([]any{json.Number(f.ToS), map[string]any{"1.0e-05": json.Number(f.ToS)}, "\"1.0e-05,1.0e+15"})
		require.NoError(t, err)
		draft := job.Draft{Class: "C1.0e-05", Queue: "q", JID: "j", ArgsJSON: args, Extra: []job.Edit{{Name: "x", JSON: args}}}
		for unit, spelled := range map[job.TimeUnit]string{job.Seconds: f.ToS, job.Millis: f.JSON216} {
			draft.Unit = unit
			want := `[` + spelled + `,{"1.0e-05":` + spelled + `},"\"1.0e-05,1.0e+15"]`
			require.Equal(t, `{"retry":true,"queue":"q","x":`+want+`,"args":`+want+`,"class":"C1.0e-05","jid":"j"}`, draft.Encode())
		}
	}
}
