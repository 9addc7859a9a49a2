package dedup_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
)

// parse reads a payload with the required fields and these.
func parse(t require.TestingT, fields string) *job.Job {
	j, err := job.Parse(`{"class":"C","jid":"j","args":[1.0]` + fields + `}`)
	require.NoError(t, err)
	return j
}

const soundDigest = `"digest":"00112233445566778899aabbccddeeff"`

func TestRead(t *testing.T) {
	t.Parallel()
	t.Run("answers_what_Edit_wrote", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			rule := dedup.Rule{
				Until:              rapid.SampledFrom([]dedup.Until{dedup.UntilExecuting, dedup.UntilExecuted}).Draw(t, "until"),
				TTL:                time.Duration(rapid.Int64Range(0, dedup.MaxTTL.Milliseconds()).Draw(t, "ms")) * time.Millisecond,
				IncludingScheduled: rapid.Bool().Draw(t, "scheduled"),
				MarkDuplicates:     rapid.Bool().Draw(t, "mark"),
			}
			rule.RescheduleOnce = rule.Until == dedup.UntilExecuted && !rule.MarkDuplicates && rapid.Bool().Draw(t, "again")
			draft := job.Draft{Class: "C", Queue: "q", JID: job.NewJID(), ArgsJSON: `["` + dedup.FieldName + `"]`}
			lock, err := rule.Lock(draft)
			require.NoError(t, err)
			require.NoError(t, job.CheckExtra(lock.Edit()))
			draft.Extra = []job.Edit{lock.Edit()}
			j, err := job.Parse(draft.Encode())
			require.NoError(t, err)
			got, err := dedup.Read(j)
			require.NoError(t, err)
			require.Equal(t, lock, got)

			j, err = job.Parse(j.Patch(dedup.Lock{}.Edit()))
			require.NoError(t, err)
			got, err = dedup.Read(j)
			require.NoError(t, err)
			require.True(t, got.None())
		})
	})
	t.Run("the_field_is_spelled_as_documented", func(t *testing.T) {
		t.Parallel()
		lock := held(dedup.UntilExecuted)
		require.Equal(t, job.Edit{Name: "belay_unique", JSON: `{` + soundDigest + `,"until":"until_executed","ttl_ms":1000}`}, lock.Edit())
		lock.Rerun, lock.Scheduled, lock.Mark = true, true, true
		require.Equal(t, `{`+soundDigest+`,"until":"until_executed","ttl_ms":1000,"again":true,"scheduled":true,"mark":true}`, lock.Edit().JSON)
	})
	t.Run("other_hands_and_other_versions_may_have_written_it", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{
			`{"ttl_ms" : 1000 , "until":"until\u005fexecuted", ` + soundDigest + `}`,
			`{` + soundDigest + `,"until":"until_executed","ttl_ms":1000,"again":null,"scheduled":false,"wal":{"main":"0/1"}}`,
			`{"until":"until_executing",` + soundDigest + `,"until":"until_executed","ttl_ms":1000}`,
		} {
			got, err := dedup.Read(parse(t, `,"belay_unique":`+text))
			require.NoError(t, err, text)
			require.Equal(t, held(dedup.UntilExecuted), got, text)
		}
		longer := strings.Repeat("0123456789abcdef", 4)
		got, err := dedup.Read(parse(t, `,"belay_unique":{"digest":"`+longer+`","until":"until_executing","ttl_ms":1,"again":true}`))
		require.NoError(t, err)
		require.Equal(t, dedup.Lock{Digest: longer, JID: "j", Until: dedup.UntilExecuting, TTL: time.Millisecond}, got,
			"what is pushed after a start is accepted, so that no run is left to be done")
	})
	t.Run("a_job_without_the_field_is_not_unique", func(t *testing.T) {
		t.Parallel()
		for _, fields := range []string{``, `,"belay_unique":null`, `,"x":"belay_unique"`, `,"x":{"belay_unique":1}`, `,"unique_for":5`} {
			got, err := dedup.Read(parse(t, fields))
			require.NoError(t, err, fields)
			require.True(t, got.None(), fields)
		}
	})
	t.Run("what_is_unreadable_is_no_lock_and_says_so", func(t *testing.T) {
		t.Parallel()
		const rest = `,"until":"until_executed","ttl_ms":1000}`
		for _, text := range []string{
			`1`, `true`, `"x"`, `[]`, `[{}]`, `{}`, `{"digest":null` + rest, `{"digest":5` + rest, `{"digest":""` + rest, `{"x":1` + rest,
			`{"digest":"00112233445566778899aabbccddeef"` + rest, `{"digest":"00112233445566778899AABBCCDDEEFF"` + rest,
			`{"digest":"*0112233445566778899aabbccddeeff"` + rest, `{"digest":"00112233445566778899aabbccddeef\u0000"` + rest,
			`{"digest":"` + strings.Repeat("0", 129) + `"` + rest, `{"digest":"` + strings.Repeat("é", 32) + `"` + rest,
			`{` + soundDigest + `}`, `{` + soundDigest + `,"until":"until_executed"}`, `{` + soundDigest + `,"ttl_ms":1000}`,
			`{` + soundDigest + `,"until":"until_expired","ttl_ms":1000}`, `{` + soundDigest + `,"until":true,"ttl_ms":1000}`,
			`{` + soundDigest + `,"until":"until_executed","ttl_ms":0}`, `{` + soundDigest + `,"until":"until_executed","ttl_ms":-1}`,
			`{` + soundDigest + `,"until":"until_executed","ttl_ms":315360000001}`, `{` + soundDigest + `,"until":"until_executed","ttl_ms":18446744073710}`,
			`{` + soundDigest + `,"until":"until_executed","ttl_ms":1e400}`, `{` + soundDigest + `,"until":"until_executed","ttl_ms":"1000"}`,
			`{` + soundDigest + `,"until":"until_executed","ttl_ms":1.5}`, `{` + soundDigest + `,"until":"until_executed","ttl_ms":99999999999999999999}`,
			`{` + soundDigest + `,"until":"until_executed","ttl_ms":1000,"again":1}`, `{` + soundDigest + `,"until":"until_executed","ttl_ms":1000,"again":"false"}`,
		} {
			got, err := dedup.Read(parse(t, `,"belay_unique":`+text))
			var unreadable *dedup.UnreadableError
			require.ErrorAs(t, err, &unreadable, text)
			require.Contains(t, err.Error(), "unreadable belay_unique: ")
			require.NotContains(t, err.Error(), "0112233", "it quotes nothing")
			require.Equal(t, dedup.Lock{}, got, text)
		}
		j, err := job.Parse(`{"class":"C","jid":"","args":[],"belay_unique":{` + soundDigest + rest + `}`)
		require.NoError(t, err)
		_, err = dedup.Read(j)
		require.ErrorContains(t, err, "no jid")
	})
}

// FuzzRead tests that a lock read from any field is one that Edit could have written, and that a rerun keeps
// it.
func FuzzRead(f *testing.F) {
	f.Add(`{` + soundDigest + `,"until":"until_executed","ttl_ms":1000,"again":true}`)
	f.Add(`{"digest":["x"],"until":{},"ttl_ms":-0,"again":"no"}`)
	f.Add(`1,"\u0062elay_unique":{},"retry_count":1,"jid":""`)
	f.Fuzz(func(t *testing.T, text string) {
		j, err := job.Parse(`{"class":"C","jid":"j","args":[1.0],"belay_unique":` + text + `}`)
		if err != nil {
			t.Skip()
		}
		lock, err := dedup.Read(j)
		if err != nil || lock.None() {
			require.Equal(t, dedup.Lock{}, lock)
		} else {
			require.NoError(t, dedup.CheckTTL(lock.TTL))
			require.Regexp(t, `^[0-9a-f]{32,128}$`, lock.Digest)
			require.Equal(t, j.JID(), lock.JID)
			again, err := job.Parse(j.Patch(lock.Edit()))
			require.NoError(t, err)
			read, err := dedup.Read(again)
			require.NoError(t, err)
			require.Equal(t, lock, read)
		}
		rerun, err := job.Parse(dedup.Rerun(j, "k", "q", now, job.Seconds).Bytes)
		require.NoError(t, err)
		require.Equal(t, "k", rerun.JID())
		require.Equal(t, j.ArgsJSON(), rerun.ArgsJSON())
		before, _ := j.Field(dedup.FieldName)
		after, _ := rerun.Field(dedup.FieldName)
		require.Equal(t, before, after)
	})
}
