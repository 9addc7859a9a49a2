package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

// parsed returns the flags of a command line of work.
func parsed(t *testing.T, args ...string) *workFlags {
	t.Helper()
	var flags workFlags
	set := pflag.NewFlagSet("work", pflag.ContinueOnError)
	flags.register(set)
	require.NoError(t, set.Parse(args))
	return &flags
}

// Two names in one pair of quotes are a mistake of the shell's. A queue that Ruby named so is taken by a
// file.
func TestAQueueNameWithWhiteSpaceIsRefusedOnTheCommandLineAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		words []string
		says  string
	}{
		{[]string{"work", "-q", "mail low", "--exec", "*=true"}, "-q mail -q low"},
		{[]string{"work", "-q", "mail,3 low", "--exec", "*=true"}, "-q mail,3 -q low"},
		{[]string{"work", "--queue", " mail", "--exec", "*=true"}, "-q mail "},
	} {
		answer := invoke("", c.words...)
		require.Equal(t, exitUsage, answer.code, answer.errs)
		require.Contains(t, answer.errs, "white space")
		require.Contains(t, answer.errs, c.says)
	}
	file := filepath.Join(t.TempDir(), "belay.yml")
	require.NoError(t, os.WriteFile(file, []byte("queues: ['mail low']\nexec: {'*': 'true'}\n"), 0o600))
	answer := invoke("", "work", "--config", file, "--print-config")
	require.Zero(t, answer.code, answer.errs)
	require.Contains(t, answer.out, "mail low")
}

func TestWorkFlags(t *testing.T) {
	t.Parallel()
	t.Run("set_the_config", func(t *testing.T) {
		t.Parallel()
		flags := parsed(t, "-q", "high,3", "-q", "low", "-c", "7", "--heartbeat", "200ms", "--ttl", "2s", "--janitor", "1s",
			"--shutdown-timeout", "3s", "--job-timeout", "7s", "--name", "n", "--tag", "t", "--retry-formula", "4.2.3", "--max-retries", "2",
			"--timestamps", "milliseconds")
		require.NoError(t, flags.check())
		cfg := flags.main.Server
		require.Equal(t, []belay.QueueWeight{{Name: "high", Weight: 3}, {Name: "low"}}, cfg.Queues)
		require.Equal(t, 7, cfg.Concurrency)
		require.Equal(t, []time.Duration{200 * time.Millisecond, 2 * time.Second, time.Second, 3 * time.Second, 7 * time.Second},
			[]time.Duration{cfg.Heartbeat, cfg.TTL, cfg.JanitorInterval, cfg.ShutdownTimeout, cfg.Timeout})
		require.Equal(t, "nt", cfg.Name+cfg.Tag)
		require.Equal(t, retry.Sidekiq4, cfg.RetryFormula)
		require.Equal(t, 2, cfg.Retries)
		require.Equal(t, job.Millis, flags.main.Client.Unit)
	})
	t.Run("a_zero_that_means_none_is_not_the_default", func(t *testing.T) {
		t.Parallel()
		flags := parsed(t, "--shutdown-timeout", "0", "--max-retries", "0")
		require.NoError(t, flags.check())
		require.Negative(t, flags.main.Server.ShutdownTimeout)
		require.Negative(t, flags.main.Server.Retries)
	})
	t.Run("all_mistakes_are_reported_at_once", func(t *testing.T) {
		t.Parallel()
		err := parsed(t, "-q", "a,b", "-q", "c,0", "-c", "0", "--heartbeat", "0s", "--shutdown-timeout", "-1s", "--max-retries", "-1",
			"--retry-formula", "9", "--timestamps", "x", "--log-level", "loud", "--log-format", "xml", "--poll", "soon").check()
		for _, part := range []string{`--queue "a,b"`, `--queue "c,0"`, "--concurrency", "--heartbeat", "--shutdown-timeout", "--max-retries", `"9"`,
			"--timestamps", "--log-level", "--log-format", `--poll "soon"`} {
			require.ErrorContains(t, err, part)
		}
	})
}

func TestParsePrograms(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	t.Run("split_and_found", func(t *testing.T) {
		t.Parallel()
		programs, err := parsePrograms([]string{`Mail::Welcome=sh -c 'echo "a=b"'`, "*=sh"})
		require.NoError(t, err)
		require.Equal(t, []program{
			{class: "Mail::Welcome", path: sh, words: []string{"sh", "-c", `echo "a=b"`}},
			{class: "*", path: sh, words: []string{"sh"}},
		}, programs)
	})
	t.Run("with_a_timeout", func(t *testing.T) {
		t.Parallel()
		programs, err := parsePrograms([]string{`Mail::Welcome,timeout=1m30s=sh -c 'echo "a=b"'`, "*,timeout=1ms=sh", "A=sh a,timeout=3s"})
		require.NoError(t, err)
		require.Equal(t, []program{
			{class: "Mail::Welcome", path: sh, words: []string{"sh", "-c", `echo "a=b"`}, timeout: 90 * time.Second},
			{class: "*", path: sh, words: []string{"sh"}, timeout: time.Millisecond},
			{class: "A", path: sh, words: []string{"sh", "a,timeout=3s"}},
		}, programs)
		_, err = parsePrograms([]string{"A,timeout=sh", "B,timeout=30=sh", "C,timeout=0s=sh", "D,timeout=-1s=sh", "E,timeout=1s="})
		for _, part := range []string{"--exec A,timeout=sh: it must be CLASS=COMMAND", `--exec B: timeout "30"`, `--exec C: timeout "0s"`,
			`--exec D: timeout "-1s"`, "--exec E: the command is empty"} {
			require.ErrorContains(t, err, part)
		}
	})
	t.Run("all_mistakes_are_reported_at_once", func(t *testing.T) {
		t.Parallel()
		_, err := parsePrograms([]string{"A=/nowhere/a", "B", "C=", "=sh", "D='x", "E=sh", "E=sh"})
		for _, part := range []string{`"/nowhere/a"`, "B: it must be CLASS=COMMAND", "C: the command is empty", "name of the class is empty",
			"D: a single quote", "E: the class has a command already"} {
			require.ErrorContains(t, err, part)
		}
	})
	t.Run("none_is_an_error_with_advice", func(t *testing.T) {
		t.Parallel()
		_, err := parsePrograms(nil)
		require.ErrorContains(t, err, "--exec CLASS=COMMAND")
	})
}
