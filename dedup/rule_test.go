package dedup_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
)

func all(argsJSON string) (string, error) { return argsJSON, nil }

func TestRuleCheck(t *testing.T) {
	t.Parallel()
	t.Run("allows_what_can_be_meant", func(t *testing.T) {
		t.Parallel()
		for _, rule := range []dedup.Rule{
			{Until: dedup.UntilExecuting},
			{Until: dedup.UntilExecuted, RescheduleOnce: true, IncludingScheduled: true, PerQueue: true},
			{Until: dedup.UntilExecuted, TTL: time.Millisecond},
			{Until: dedup.UntilExecuted, TTL: dedup.MaxTTL},
			{Until: dedup.UntilExecuted, Positions: []int{2, 1}},
			{Until: dedup.UntilExecuted, By: all},
		} {
			require.NoError(t, rule.Check(), "%+v", rule)
		}
	})
	t.Run("names_everything_that_is_wrong_at_once", func(t *testing.T) {
		t.Parallel()
		rule := dedup.Rule{Until: "until_done", TTL: -1, Positions: []int{0, 3, 3}, By: all}
		for _, words := range []string{"until_done", "above 0", "both By and Positions", "counted from 1", "argument 3 is named twice"} {
			require.ErrorContains(t, rule.Check(), words)
		}
		require.ErrorContains(t, dedup.Rule{}.Check(), "until when")
		require.ErrorContains(t, dedup.Rule{Until: dedup.UntilExecuting, RescheduleOnce: true}.Check(), "requires until_executed")
		require.ErrorContains(t, dedup.Rule{Until: dedup.UntilExpired, RescheduleOnce: true}.Check(), "once in each TTL")
	})
	t.Run("refuses_what_is_no_ttl", func(t *testing.T) {
		t.Parallel()
		for ttl, words := range map[time.Duration]string{
			-1: "above 0", -time.Hour: "above 0", 1: "whole number of milliseconds", time.Millisecond - 1: "whole number",
			1500 * time.Microsecond: "whole number", dedup.MaxTTL + time.Millisecond: "at most", 1<<63 - 1: "at most",
		} {
			require.ErrorContains(t, dedup.CheckTTL(ttl), words, ttl)
			require.ErrorContains(t, dedup.Rule{Until: dedup.UntilExecuted, TTL: ttl}.Check(), words, ttl)
		}
		require.ErrorContains(t, dedup.CheckTTL(0), "above 0", "who asks for 0 does not ask for the default")
		require.NoError(t, dedup.CheckTTL(10*time.Millisecond))
	})
}

func TestRuleLock(t *testing.T) {
	t.Parallel()
	draft := job.Draft{Class: "C", Queue: "q", JID: "j", ArgsJSON: `[1,{"b":2,"a":1},"x"]`}
	lock := func(t *testing.T, r dedup.Rule, d job.Draft) dedup.Lock {
		t.Helper()
		if r.Until == "" {
			r.Until = dedup.UntilExecuted
		}
		l, err := r.Lock(d)
		require.NoError(t, err)
		return l
	}
	with := func(change func(d *job.Draft)) job.Draft {
		d := draft
		change(&d)
		return d
	}
	t.Run("holds_all_that_the_rule_says", func(t *testing.T) {
		t.Parallel()
		want, err := dedup.Digest("C", "", []byte(draft.ArgsJSON))
		require.NoError(t, err)
		require.Equal(t, dedup.Lock{Digest: want, JID: "j", Until: dedup.UntilExecuting, TTL: 6 * time.Hour},
			lock(t, dedup.Rule{Until: dedup.UntilExecuting}, draft))
		require.Equal(t, dedup.Lock{Digest: want, JID: "j", Until: dedup.UntilExecuted, TTL: time.Second, Rerun: true, Scheduled: true},
			lock(t, dedup.Rule{TTL: time.Second, RescheduleOnce: true, IncludingScheduled: true}, draft))
		require.Equal(t, dedup.Lock{Digest: want, JID: "j", Until: dedup.UntilExecuted, TTL: time.Second, Mark: true},
			lock(t, dedup.Rule{TTL: time.Second, MarkDuplicates: true}, draft), "and the digest is the same")
	})
	t.Run("the_queue_counts_only_when_asked", func(t *testing.T) {
		t.Parallel()
		elsewhere := with(func(d *job.Draft) { d.Queue = "other" })
		require.Equal(t, lock(t, dedup.Rule{}, draft).Digest, lock(t, dedup.Rule{}, elsewhere).Digest)
		apart := dedup.Rule{PerQueue: true}
		require.NotEqual(t, lock(t, apart, draft).Digest, lock(t, apart, elsewhere).Digest)
		require.NotEqual(t, lock(t, apart, draft).Digest, lock(t, dedup.Rule{}, draft).Digest)
	})
	t.Run("neither_jid_nor_ttl_nor_strategy_counts", func(t *testing.T) {
		t.Parallel()
		otherDraft := with(func(d *job.Draft) { d.JID, d.Retry = "k", "3" })
		require.Equal(t, lock(t, dedup.Rule{}, draft).Digest, lock(t, dedup.Rule{Until: dedup.UntilExecuting, TTL: time.Hour}, otherDraft).Digest)
	})
	t.Run("no_arguments_are_an_empty_array", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, lock(t, dedup.Rule{}, job.Draft{Class: "C", JID: "j", ArgsJSON: "[]"}), lock(t, dedup.Rule{}, job.Draft{Class: "C", JID: "j"}))
	})
	t.Run("positions_choose_the_arguments_that_count", func(t *testing.T) {
		t.Parallel()
		rule := dedup.Rule{Positions: []int{3, 1}}
		want, err := dedup.Digest("C", "", []byte(`["x",1]`))
		require.NoError(t, err)
		require.Equal(t, want, lock(t, rule, draft).Digest)
		require.Equal(t, want, lock(t, rule, with(func(d *job.Draft) { d.ArgsJSON = ` [ 1.0 , "else" , "\u0078", 4 ] ` })).Digest)
		require.NotEqual(t, want, lock(t, rule, with(func(d *job.Draft) { d.ArgsJSON = `[2,0,"x"]` })).Digest)
		short := with(func(d *job.Draft) { d.ArgsJSON = `[1]` })
		null := with(func(d *job.Draft) { d.ArgsJSON = `[1,5,null]` })
		require.Equal(t, lock(t, rule, null).Digest, lock(t, rule, short).Digest)
	})
	t.Run("a_function_chooses_any_value", func(t *testing.T) {
		t.Parallel()
		rule := dedup.Rule{By: func(args string) (string, error) {
			require.Equal(t, draft.ArgsJSON, args)
			return `{"id":1}`, nil
		}}
		want, err := dedup.Digest("C", "", []byte(`{"id":1.0}`))
		require.NoError(t, err)
		require.Equal(t, want, lock(t, rule, draft).Digest)
	})
	t.Run("refuses_a_job_that_would_not_be_unique", func(t *testing.T) {
		t.Parallel()
		bad := errors.New("no id")
		sound := dedup.Rule{Until: dedup.UntilExecuted}
		for _, c := range []struct {
			rule  dedup.Rule
			draft job.Draft
			words string
		}{
			{dedup.Rule{}, draft, "until when"},
			{sound, with(func(d *job.Draft) { d.JID = "" }), "jid"},
			{sound, with(func(d *job.Draft) { d.ArgsJSON = "[1e1000000000]" }), "power of ten"},
			{dedup.Rule{Until: dedup.UntilExecuted, Positions: []int{1}}, with(func(d *job.Draft) { d.ArgsJSON = "{}" }), "not a JSON array"},
			{dedup.Rule{Until: dedup.UntilExecuted, By: func(string) (string, error) { return "", bad }}, draft, "no id"},
			{dedup.Rule{Until: dedup.UntilExecuted, By: func(string) (string, error) { return "user 1", nil }}, draft, "not JSON"},
		} {
			l, err := c.rule.Lock(c.draft)
			require.ErrorContains(t, err, c.words)
			require.True(t, l.None())
		}
	})
}
