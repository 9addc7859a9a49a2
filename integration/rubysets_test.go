package integration

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// How operators find a failed program, and what its job's first retry may wait by Sidekiq 8's formula: fifteen
// seconds and a draw of ten.
const (
	failure       = "no é <today> & never"
	failureClass  = "ExitStatus"
	firstRetryMin = 15.0
	firstRetryMax = 25.0
)

// What Belay failed is in Ruby's RetrySet and DeadSet as Ruby's own failures are, and all that can be done
// there can be done to it.
func TestRubyRepairsWhatBelayFailed(t *testing.T) {
	t.Parallel()
	eachClientWithRuby(t, func(t *testing.T, s *site, ruby *rubySide) {
		begun, book := time.Now(), newLedger(t)
		letter := func(options map[string]any) string {
			item := map[string]any{
				"class": "Letter", "queue": "mail",
				"args": []any{json.Number("9007199254740993"), json.Number("1.5"), "é<&>\u2028/", []any{}, map[string]any{}},
			}
			for name, value := range options {
				item[name] = value
			}
			return ruby.push(t, item)
		}
		postponed, retried, killed, deleted := letter(nil), letter(nil), letter(nil), letter(nil)
		dying, dropped := letter(map[string]any{"retry": 0}), letter(map[string]any{"retry": false})
		unknown := letter(map[string]any{"class": "Unknown"})
		s.work(append(fast, "-q", "mail", "-c", "2", "--exec", book.exec("Letter", "-fail", failure))...)
		eventually(t, "all jobs to fail", func() bool { return ruby.stats(t).Failed == 7 })

		retries, dead := ruby.entries(t, "retry"), ruby.entries(t, "dead")
		t.Run("every field of a failed job", func(t *testing.T) {
			require.Len(t, retries, 5)
			require.Len(t, dead, 1)
			require.NotContains(t, retries, dropped)
			for _, jid := range []string{postponed, retried, killed, deleted} {
				requireFailed(t, retries[jid], begun)
				require.GreaterOrEqual(t, retries[jid].Score-retries[jid].FailedAt, firstRetryMin-1)
				require.LessOrEqual(t, retries[jid].Score-retries[jid].FailedAt, firstRetryMax+1)
			}
			requireFailed(t, dead[dying], begun)
			require.InDelta(t, dead[dying].FailedAt, dead[dying].Score, 1)
			require.Contains(t, retries[unknown].ErrorMessage, "Unknown")
			require.NotEmpty(t, retries[unknown].ErrorClass)
			require.True(t, retries[unknown].SameBytes)
		})
		t.Run("reschedule moves the entry and makes no second one", func(t *testing.T) {
			at := seconds(time.Now().Add(time.Hour))
			ruby.ask(t, nil, "reschedule", "retry", postponed, at)
			after := ruby.entries(t, "retry")
			require.Len(t, after, 5)
			require.InDelta(t, at, after[postponed].Score, 0.01)
		})
		t.Run("retry runs the job again and costs it nothing", func(t *testing.T) {
			ruby.ask(t, nil, "retry", "retry", retried)
			require.Equal(t, "0", book.awaitStart(retried, 2).RetryCount)
			eventually(t, "it to fail again", func() bool { return ruby.entries(t, "retry")[retried].Item["retried_at"] != nil })
			again := ruby.entries(t, "retry")[retried]
			requireFailed(t, again, begun)
			require.InDelta(t, retries[retried].FailedAt, again.FailedAt, 1e-6, "failed_at is the first failure's")
			require.Equal(t, book.starts(retried)[0].Input, book.starts(retried)[1].Input)
		})
		t.Run("kill moves the entry to the dead", func(t *testing.T) {
			ruby.ask(t, nil, "kill", "retry", killed)
			require.NotContains(t, ruby.entries(t, "retry"), killed)
			require.Equal(t, retries[killed].Item, ruby.entries(t, "dead")[killed].Item)
		})
		t.Run("delete takes the entry out", func(t *testing.T) {
			ruby.ask(t, nil, "delete", "retry", deleted)
			require.NotContains(t, ruby.entries(t, "retry"), deleted)
			ruby.ask(t, nil, "delete", "dead", killed)
			require.NotContains(t, ruby.entries(t, "dead"), killed)
		})
		t.Run("retry of a dead job runs it once more", func(t *testing.T) {
			ruby.ask(t, nil, "retry", "dead", dying)
			book.awaitStart(dying, 2)
			eventually(t, "it to die again", func() bool { return ruby.entries(t, "dead")[dying].Item["retried_at"] != nil })
			requireFailed(t, ruby.entries(t, "dead")[dying], begun)
		})
		stats := ruby.stats(t)
		require.EqualValues(t, 9, stats.Failed)
		require.EqualValues(t, 9, stats.Processed)
		require.EqualValues(t, 3, stats.Retries)
		require.EqualValues(t, 1, stats.Dead)
	}, oracle.Operators())
}

// requireFailed holds that Ruby reads in entry what Belay knows of the failure of a letter.
func requireFailed(t *testing.T, entry rubyEntry, begun time.Time) {
	t.Helper()
	require.True(t, entry.IsError)
	require.Equal(t, failureClass, entry.ErrorClass)
	require.Equal(t, "exit status 1: "+failure, entry.ErrorMessage)
	require.Empty(t, entry.ErrorBacktrace, "a program has no stack to show")
	require.NotNil(t, entry.RetryCount)
	require.Zero(t, *entry.RetryCount)
	require.GreaterOrEqual(t, entry.FailedAt, seconds(begun)-1)
	require.LessOrEqual(t, entry.FailedAt, seconds(time.Now())+1)
	require.LessOrEqual(t, entry.CreatedAt, entry.FailedAt+1)
	require.Equal(t, "mail", entry.Queue)
	require.Equal(t, "Letter", entry.Class)
	require.Equal(t, "[9007199254740993,1.5,\"é<&>\u2028/\",[],{}]", entry.Args)
	require.True(t, entry.SameBytes, "Ruby would write it otherwise, and its dashboard would double it")
}

// Jobs that failed in one moment are still apart for Ruby, which tells members of a set by their score: "retry
// all" finds each of them, and none twice.
func TestRubyRetriesAllThatFailedAtOnce(t *testing.T) {
	t.Parallel()
	eachClientWithRuby(t, func(t *testing.T, s *site, ruby *rubySide) {
		var pushed []rubyPush
		ruby.ask(t, &pushed, "push_bulk", 120)
		p := s.work("-q", "mail", "-c", "8", "--exec", "Letter=false")
		eventually(t, "all jobs to fail", func() bool { return ruby.stats(t).Failed >= 120 })
		waitTerm(t, p)
		scores := make(map[float64]bool)
		for _, entry := range ruby.entries(t, "retry") {
			scores[entry.Score] = true
			require.True(t, entry.SameBytes)
		}
		require.Len(t, scores, len(pushed))

		ruby.ask(t, nil, "retry_all", "retry")
		var queue rubyQueue
		ruby.ask(t, &queue, "queue", "mail")
		back := make(map[string]bool)
		for _, job := range queue.Jobs {
			back[job.JID] = true
			require.EqualValues(t, -1, job.Item["retry_count"])
		}
		require.Len(t, queue.Jobs, len(pushed))
		require.Len(t, back, len(pushed))
		require.Empty(t, ruby.entries(t, "retry"))
	})
}

// The stack of a panic is what Ruby's dashboard shows as the backtrace.
func TestRubyShowsThePanicOfAGoHandler(t *testing.T) {
	t.Parallel()
	eachClientWithRuby(t, func(t *testing.T, s *site, ruby *rubySide) {
		worker, err := launcher.New(launcher.Config{Client: s.driverOf(check.RoleWorker), Queues: []fetch.Queue{{Name: "mail"}}, Concurrency: 1})
		require.NoError(t, err)
		worker.Handle("Letter", func(context.Context, *job.Job) error { return tearUp() }, launcher.Class{})
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- worker.Run(ctx) }()
		defer func() {
			stop()
			require.NoError(t, <-stopped)
		}()

		limited := ruby.push(t, map[string]any{"class": "Letter", "queue": "mail", "args": []any{}, "backtrace": 2})
		all := ruby.push(t, map[string]any{"class": "Letter", "queue": "mail", "args": []any{}, "backtrace": true})
		eventually(t, "both to fail", func() bool { return ruby.stats(t).Failed == 2 })
		retries := ruby.entries(t, "retry")
		require.Len(t, retries[limited].ErrorBacktrace, 2)
		require.Greater(t, len(retries[all].ErrorBacktrace), 2)
		for _, entry := range retries {
			require.Contains(t, entry.ErrorMessage, "torn")
			require.Contains(t, entry.ErrorBacktrace[0], "rubysets_test.go")
			require.Contains(t, entry.ErrorBacktrace[0], "tearUp")
			require.True(t, entry.SameBytes)
		}
	})
}

// tearUp is a handler with a bug. It is not inlined, so that its name stands in the stack.
//
//go:noinline
func tearUp() error { panic("torn") }
