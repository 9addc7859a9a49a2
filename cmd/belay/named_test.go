package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
)

func TestDryRunsOfActsOnNamesShowWhatIsThereAndChangeNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.do("HSET", h.key("belay:limits"), "webhooks", "5 window 100 60000 code 1700000000")
	h.do("HSET", h.key("belay:gates"), "webhooks:acme\nr", "4")
	h.wait("webhooks:acme", "mail", deadJob("A", "1"))
	id := strings.TrimSpace(h.invoke("", "batches", "new").out)
	require.Zero(t, h.invoke("", "classes", "limit", "B", "5").code)
	seen := func() []any {
		return []any{
			h.do("HGETALL", h.key("belay:limits")), h.do("HGETALL", h.key("belay:gates")), h.do("HGETALL", h.key("belay:classes")),
			h.invoke("", "batches", "show", id, "--json").code, h.do("ZCARD", h.key("belay:batches")),
		}
	}
	before := seen()
	for line, out := range map[string]string{
		"limits set webhooks --concurrency 9": "webhooks: would have concurrency 9, rate 100/1m; it was not set\n",
		"limits set new --rate 1/1s":          "new: would have concurrency -, rate 1/1s (no program has registered it); it was not set\n",
		"limits reset webhooks":               "webhooks: concurrency 5, rate 100/1m, source code, 4 running, 1 waiting; it was not reset\n",
		"limits reset webhooks:acme":          "webhooks:acme: would have 0 running (has 4), 0 admitted (has 0); it was not reset\n",
		"limits remove webhooks":              "webhooks: concurrency 5, rate 100/1m, source code, 4 running, 1 waiting; it was not removed\n",
		"classes pause B":                     "B: rule limit 5, 0 running, 0 waiting; it was not paused\n",
		"classes drop C":                      "C: no rule; it was not dropped\n",
		"classes limit B 6":                   "B: rule limit 5, 0 running, 0 waiting; it was not limited\n",
		"classes resume B":                    "B: rule limit 5, 0 running, 0 waiting; it was not resumed\n",
		"batches seal " + id:                  id + ": open, 0 in all, 0 pending, 0 failed, 0 dead, 0 removed; it was not sealed\n",
		"batches delete " + id:                id + ": open, 0 in all, 0 pending, 0 failed, 0 dead, 0 removed; it was not deleted\n",
		"batches invalidate " + id:            id + ": open, 0 in all, 0 pending, 0 failed, 0 dead, 0 removed; it was not invalidated\n",
	} {
		require.Equal(t, said{out: out}, h.invoke("", append(strings.Fields(line), "--dry-run")...), line)
	}
	require.Equal(t, before, seen())
	for line, code := range map[string]int{
		"limits reset other": exitAbsent, "limits remove other": exitAbsent, "classes resume none": exitAbsent, "batches seal none": exitAbsent,
		"limits set webhooks": exitUsage, "limits set webhooks --rate often": exitUsage, "classes limit B 0": exitUsage,
		"limits remove class.B": exitUsage, "limits reset class.B": exitUsage,
	} {
		require.Equal(t, code, h.invoke("", append(strings.Fields(line), "--dry-run")...).code, line)
	}
}

// It is not parallel, because it signals the process of all tests.
func TestASignalEndsAnActOnNames(t *testing.T) {
	h := newHouse(t)
	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	for lost, errs := range map[bool]string{ // whether the reply is lost that the signal came before
		true:  "interrupted by a signal (terminated): second may have been awaited",
		false: "interrupted by a signal (terminated)",
	} {
		var at redisFlags
		var out bytes.Buffer
		var begun []string
		cmd := namedAct{use: "await NAME...", past: "awaited", do: func(ctx context.Context, _ *inspect.Inspector, name string) (string, bool, error) {
			begun = append(begun, name)
			if name == "second" {
				require.NoError(t, self.Signal(syscall.SIGTERM))
				<-ctx.Done()
				if lost {
					return "", false, ctx.Err()
				}
			}
			return "awaited", true, nil
		}}.command(&at)
		at.register(cmd.Flags())
		cmd.SetArgs(h.at("first", "second", "third"))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetOut(&out)
		err := cmd.Execute()
		own, is := errors.AsType[statusError](err)
		require.True(t, is, err)
		require.Equal(t, 143, own.status)
		require.EqualError(t, err, errs)
		require.Equal(t, []string{"first", "second"}, begun)
		require.Equal(t, !lost, strings.Contains(out.String(), "second: awaited\n"), out.String())
	}
}

// A Redis that answers nothing holds no act on a name for longer.
func TestAnActOnANameHasADeadline(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	look := func(ctx context.Context, _ *inspect.Inspector, _ string) (string, bool, error) {
		deadline, bounded := ctx.Deadline()
		require.True(t, bounded)
		require.LessOrEqual(t, time.Until(deadline), statusTimeout)
		return "", true, nil
	}
	for _, words := range [][]string{{"one", "two"}, {"one", "--dry-run"}} {
		var at redisFlags
		cmd := namedAct{use: "act NAME...", do: look, look: look}.command(&at)
		at.register(cmd.Flags())
		cmd.SetArgs(h.at(words...))
		cmd.SetOut(io.Discard)
		require.NoError(t, cmd.Execute())
	}
}
