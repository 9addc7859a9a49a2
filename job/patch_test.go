package job_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belayq/belay/job"
)

func TestPatch(t *testing.T) {
	t.Parallel()
	const good = `"class":"C","args":[],"jid":"j"`
	for _, c := range []struct {
		promise, raw, want string
		edits              []job.Edit
	}{
		{"changes_a_field_where_it_stands", `{"a" : 1 ,` + good + `}`, `{"a" : 2 ,` + good + `}`, []job.Edit{job.SetInt("a", 2)}},
		{"changes_the_last_of_duplicates", `{"a":1,` + good + `,"a":2}`, `{"a":1,` + good + `,"a":3}`, []job.Edit{job.SetInt("a", 3)}},
		{"finds_a_name_written_with_escapes", `{"\u0061":1,` + good + `}`, `{"\u0061":2,` + good + `}`, []job.Edit{job.SetInt("a", 2)}},
		{"appends_in_the_order_of_the_edits", `{` + good + " \n} ", `{` + good + ",\"b\":1,\"a\":2 \n} ", []job.Edit{job.SetInt("b", 1), job.SetInt("a", 2)}},
		{"escapes_a_new_name", `{` + good + `}`, `{` + good + `,"a\"\n":1}`, []job.Edit{job.SetInt("a\"\n", 1)}},
		{"removes_the_first_field", `{ "a":1 , ` + good + `}`, `{ ` + good + `}`, []job.Edit{job.Remove("a")}},
		{"removes_the_last_field", `{` + good + ` , "a":1 }`, `{` + good + ` }`, []job.Edit{job.Remove("a")}},
		{"removes_a_field_in_the_middle", `{"x":1, "a":1 ,` + good + `}`, `{"x":1, ` + good + `}`, []job.Edit{job.Remove("a")}},
		{"removes_every_field_of_the_name", `{"a":1,"a":2,` + good + `,"a":3,"a":4}`, `{` + good + `}`, []job.Edit{job.Remove("a")}},
		{"removes_what_is_not_there_without_a_trace", `{` + good + `}`, `{` + good + `}`, []job.Edit{job.Remove("a")}},
		{"removes_and_appends", `{` + good + `,"a":1}`, `{` + good + `,"b":2}`, []job.Edit{job.Remove("a"), job.SetInt("b", 2)}},
		{"removes_all_there_is", `{ ` + good + ` }`, `{ "b":1 }`, []job.Edit{job.Remove("class"), job.Remove("args"), job.Remove("jid"), job.SetInt("b", 1)}},
		{"lets_the_later_of_two_edits_count", `{` + good + `}`, `{` + good + `,"a":2}`, []job.Edit{job.SetInt("a", 1), job.SetInt("a", 2)}},
		{"lets_a_later_set_undo_a_removal", `{"a":0,` + good + `}`, `{"a":2,` + good + `}`, []job.Edit{job.Remove("a"), job.SetInt("a", 2)}},
		{"does_nothing_when_asked_nothing", `{` + good + `}`, `{` + good + `}`, nil},
		{"leaves_fields_of_the_same_name_further_in", `{"x":{"a":1},` + good + `}`, `{"x":{"a":1},` + good + `,"a":2}`, []job.Edit{job.SetInt("a", 2)}},
		{"writes_stamps", `{` + good + `}`, `{` + good + `,"a":1.5,"b":1500}`, []job.Edit{
			job.SetStamp("a", time.UnixMilli(1500), job.Seconds), job.SetStamp("b", time.UnixMilli(1500), job.Millis)}},
	} {
		t.Run(c.promise, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, parse(t, c.raw).Patch(c.edits...))
		})
	}
}

// A member of a generated payload, exactly as it is written.
type member struct{ name, text string }

var space = rapid.SampledFrom([]string{"", "", "", " ", "\t ", "\n"})

// members draws the members of a payload: the three required ones and several optional ones, in any order,
// with duplicates.
func members(t *rapid.T) []member {
	value := rapid.SampledFrom([]string{`1`, `-1.0e5`, `"x"`, `null`, `[]`, `{}`, `{"class":1}`, `"\",}"`, `[ 1 , {"a":[]}]`, `9007199254740993`})
	name := rapid.SampledFrom([]string{"a", "b", "retry", "queue", "\u00e9", `q"`, "error_message"})
	all := []member{
		{"class", `"class":"C"`}, {"jid", `"jid" : "j"`},
		{"args", `"args":[` + rapid.SampledFrom([]string{"", "1.0", ` "é" , [] `}).Draw(t, "args") + `]`},
	}
	for range rapid.IntRange(0, 6).Draw(t, "extras") {
		n := name.Draw(t, "name")
		key, _ := json.Marshal(n)
		all = append(all, member{n, string(key) + space.Draw(t, "sp") + ":" + space.Draw(t, "sp") + value.Draw(t, "value")})
	}
	return rapid.Permutation(all).Draw(t, "order")
}

func join(t *rapid.T, all []member) string {
	var out strings.Builder
	out.WriteString("{")
	for i, m := range all {
		if i > 0 {
			out.WriteString(space.Draw(t, "sp") + "," + space.Draw(t, "sp"))
		}
		out.WriteString(m.text)
	}
	return out.String() + space.Draw(t, "sp") + "}"
}

func edits(t *rapid.T) []job.Edit {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) job.Edit {
		return job.Edit{
			Name: rapid.SampledFrom([]string{"a", "b", "retry", "queue", "\u00e9", `q"`, "new\n", "retry_queue"}).Draw(t, "edit"),
			JSON: rapid.SampledFrom([]string{"", "0", `"new"`, `{"x":[1]}`, "true"}).Draw(t, "json"),
		}
	}), 0, 4).Draw(t, "edits")
}

// requirePatched tests all that Patch promises about a result, with encoding/json as the reader of both texts.
func requirePatched(t require.TestingT, j *job.Job, done []job.Edit) {
	got := j.Patch(done...)
	after, err := job.Parse(got)
	require.NoError(t, err, got)
	require.Equal(t, j.ArgsJSON(), after.ArgsJSON())
	require.Equal(t, got, after.Patch(done...), "a second time changes nothing more")

	want := map[string]json.RawMessage{}
	require.NoError(t, json.Unmarshal([]byte(j.Raw()), &want))
	for _, e := range done {
		delete(want, e.Name)
	}
	for i, e := range done {
		if e.JSON != "" && !hasName(done[i+1:], e.Name) {
			want[e.Name] = json.RawMessage(e.JSON)
		}
	}
	have := map[string]json.RawMessage{}
	require.NoError(t, json.Unmarshal([]byte(got), &have))
	require.Equal(t, want, have)
}

func hasName(done []job.Edit, name string) bool {
	for _, e := range done {
		if e.Name == name {
			return true
		}
	}
	return false
}

func TestPatchProperties(t *testing.T) {
	t.Parallel()
	t.Run("what_is_set_is_read_and_the_rest_is_as_it_was", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			j, err := job.Parse(join(t, members(t)))
			require.NoError(t, err)
			requirePatched(t, j, edits(t))
		})
	})
	t.Run("setting_one_field_leaves_every_other_byte", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			raw := join(t, members(t))
			j, err := job.Parse(raw)
			require.NoError(t, err)
			const marker = `"<the new value>"`
			name := rapid.SampledFrom([]string{"a", "retry", "absent"}).Draw(t, "name")
			got := j.Patch(job.Edit{Name: name, JSON: marker})
			before, rest, found := strings.Cut(got, marker)
			require.True(t, found)
			if old, ok := j.Field(name); ok {
				require.Equal(t, raw, before+old+rest)
			} else {
				require.Equal(t, raw, strings.TrimSuffix(before, fmt.Sprintf(",%q:", name))+rest)
			}
		})
	})
	t.Run("removing_what_was_appended_gives_the_first_bytes_back", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			raw := join(t, members(t))
			j, err := job.Parse(raw)
			require.NoError(t, err)
			more, err := job.Parse(j.Patch(job.SetInt("x1", 1), job.SetString("x2", "y")))
			require.NoError(t, err)
			require.Equal(t, raw, more.Patch(job.Remove("x2"), job.Remove("x1")))
		})
	})
}

func TestAMovedJobNamesItsNewQueueWhereverItNamesOne(t *testing.T) {
	t.Parallel()
	const wrapper = `"class":"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper","wrapped":"Mail",`
	for before, want := range map[string]string{
		`{"queue":"mail","class":"A","jid":"1","args":[1.0]}`:                                                                                                    `{"queue":"go_mail","class":"A","jid":"1","args":[1.0]}`,
		`{"queue":"mail","retry_queue":"low","class":"A","jid":"1","args":[]}`:                                                                                   `{"queue":"go_mail","retry_queue":"go_mail","class":"A","jid":"1","args":[]}`,
		`{"queue":"mail","retry_queue":null,"class":"A","jid":"1","args":[]}`:                                                                                    `{"queue":"go_mail","retry_queue":null,"class":"A","jid":"1","args":[]}`,
		`{"queue":"mail",` + wrapper + `"jid":"1","args":[ {"job_class":"Mail", "job_id":"x","queue_name" : "mail","arguments":[1.0,"é",{"queue_name":"no"}]}]}`: `{"queue":"go_mail",` + wrapper + `"jid":"1","args":[ {"job_class":"Mail", "job_id":"x","queue_name" : "go_mail","arguments":[1.0,"é",{"queue_name":"no"}]}]}`,
		`{"queue":"mail",` + wrapper + `"jid":"1","args":[{"queue_name":"mine"}]}`:                                                                               `{"queue":"go_mail",` + wrapper + `"jid":"1","args":[{"queue_name":"mine"}]}`,
		`{"queue":"mail","class":"A","jid":"1","args":[{"job_id":"x","queue_name":"mine"}]}`:                                                                     `{"queue":"go_mail","class":"A","jid":"1","args":[{"job_id":"x","queue_name":"mine"}]}`,
	} {
		j := parse(t, before)
		require.Equal(t, want, j.Patch(j.MovedTo("go_mail")...))
	}
}

func FuzzPatch(f *testing.F) {
	f.Add(`{"class":"C","args":[],"jid":"j"}`, "a", `1`, "b")
	f.Add(`{ "a" : 1 , "class":"C","args":[1.0],"jid":"j" , "b":[{}] }`, "a", `"x"`, "b")
	f.Add(`{"\u0061":1,"a":2,"class":"C","b":3,"args":[],"jid":"j","b":4}`, "a", `null`, "b")
	f.Add(`{"class":"C","args":[],"jid":"j","q\"":1}`, `q"`, `[{}]`, "é")
	f.Fuzz(func(t *testing.T, raw, set, text, remove string) {
		j, err := job.Parse(raw)
		if err != nil || !json.Valid([]byte(text)) {
			t.Skip()
		}
		for _, name := range []string{set, remove} {
			// Half a surrogate pair and a byte that is no UTF-8 both read as U+FFFD: such names are not
			// distinguished.
			if name == "class" || name == "args" || name == "jid" || name == "retry_count" || strings.ContainsRune(name, '\ufffd') {
				t.Skip()
			}
		}
		if _, err := job.Parse(payload(`"x":` + text)); err != nil {
			t.Skip() // deeper than we read, or no UTF-8
		}
		requirePatched(t, j, []job.Edit{{Name: set, JSON: strings.TrimSpace(text)}, job.Remove(remove)})
	})
}

func BenchmarkPatch(b *testing.B) {
	j := parse(b, `{"retry":true,"queue":"default","args":[12345,"user@example.com"],"class":"Mail::Welcome",`+
		`"jid":"81a3bda6f6b71c4e32642ff8","created_at":1795240473.7967563,"enqueued_at":1795240473.7967691}`)
	edit := job.Edit{Name: "enqueued_at", JSON: "1795240480.5"}
	b.ReportAllocs()
	for b.Loop() {
		j.Patch(edit)
	}
}

// Before a job enters a set, IntoSet repairs fields that break Ruby's pages or its poller, and changes nothing
// else.
func TestIntoSetMendsWhatRubyFailsOver(t *testing.T) {
	t.Parallel()
	const head = `{"class":"C","jid":"j","args":`
	for _, c := range []struct{ was, want string }{
		{`[],"tags":["a"],"retry_for":1000000000,"encrypt":false,"wrapped":null}`, ""},
		{`[],"tags":null,"retry_for":0}`, ""},
		{`[1],"encrypt":true,"cattr":{"a":1},"own":{"tags":"x"}}`, ""},
		{`[ {"job_class":"W"}],"wrapped":"W"}`, ""},
		{`[],"tags":"a","x":1}`, `[],"tags":["a"],"x":1}`},
		{`[],"tags":{"a":1}}`, `[],"tags":[{"a":1}]}`},
		{`[],"at":null}`, `[]}`},
		{`[],"at":17.5}`, `[]}`},
		{`[],"retry_for":"60"}`, `[]}`},
		{`[],"retry_for":-1}`, `[]}`},
		{`[],"retry_for":[]}`, `[]}`},
		{`[],"retry_for":60.5}`, `[],"retry_for":60}`},
		{`[],"retry_for":1000000001}`, `[],"retry_for":1000000000}`},
		{`[],"retry_for":1e400}`, `[],"retry_for":1000000000}`},
		{`[ ],"encrypt":true}`, `[ ]}`},
		{`[],"wrapped":"W"}`, ""}, // of a program's own wrapper, whose handler is found by it
		{`[1],"wrapped":"W"}`, ""},
		{`["x",{}],"wrapped":"W"}`, ""},
	} {
		if c.want == "" {
			c.want = c.was
		}
		j := parse(t, head+c.was)
		require.Equal(t, head+c.want, j.Patch(j.IntoSet()...))
	}
	for _, class := range []string{"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper", "Sidekiq::ActiveJob::Wrapper"} {
		head := `{"class":"` + class + `","jid":"j","args":`
		for was, want := range map[string]string{
			`[ {"job_class":"W"}],"wrapped":"W"}`: `[ {"job_class":"W"}],"wrapped":"W"}`,
			`[],"wrapped":"W"}`:                   `[]}`,
			`[1],"wrapped":"W"}`:                  `[1]}`,
			`["x",{}],"wrapped":"W"}`:             `["x",{}]}`,
		} {
			j := parse(t, head+was)
			require.Equal(t, head+want, j.Patch(j.IntoSet()...))
		}
	}
}
