package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/internal/drivertest"
)

// privateHouse is one on a server of its own, with its settings.
func privateHouse(t *testing.T, args ...string) *house {
	t.Helper()
	h := newHouse(t)
	h.server = drivertest.Start(t, args...)
	return h
}

func TestCheck(t *testing.T) {
	t.Parallel()
	t.Run("a_good_Redis_is_exit_status_0", func(t *testing.T) {
		t.Parallel()
		h := privateHouse(t, "--appendonly", "yes")
		for _, client := range []string{"go-redis", "rueidis"} {
			answer := h.invoke("", "check", "--client", client)
			require.Zero(t, answer.code, answer.out+answer.errs)
			require.Regexp(t, `(?m)^ok    version +(Redis|Valkey) \d`, answer.out)
			require.Empty(t, answer.errs)
		}
	})
	t.Run("a_bad_finding_is_exit_status_1_and_says_what_to_do", func(t *testing.T) {
		t.Parallel()
		h := privateHouse(t, "--appendonly", "yes", "--maxmemory-policy", "allkeys-lru")
		answer := h.invoke("", "check")
		require.Equal(t, exitFailure, answer.code)
		require.Regexp(t, `(?m)^bad   eviction .*allkeys-lru.*\n +-> CONFIG SET maxmemory-policy noeviction`, answer.out)
		require.Regexp(t, `^belay check: 1 of \d+ findings are bad\n$`, answer.errs)
	})
	t.Run("json_is_one_object_also_when_something_is_bad", func(t *testing.T) {
		t.Parallel()
		h := privateHouse(t, "--appendonly", "yes", "--cluster-enabled", "yes")
		answer := h.invoke("", "check", "--json")
		require.Equal(t, exitFailure, answer.code)
		var object struct {
			Worst    check.Severity `json:"worst"`
			Findings check.Findings `json:"findings"`
		}
		decoder := json.NewDecoder(strings.NewReader(answer.out))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(&object))
		require.False(t, decoder.More())
		require.Equal(t, check.SeverityBad, object.Worst)
		require.Equal(t, 1, object.Findings.Count(check.SeverityBad))
	})
	t.Run("a_missing_password_is_a_finding_and_no_password_is_shown", func(t *testing.T) {
		t.Parallel()
		h := privateHouse(t, "--appendonly", "yes", "--requirepass", "SECRET")
		for user, want := range map[string]int{"": exitFailure, ":SECRETwrong@": exitFailure, ":SECRET@": exitOK} {
			url := strings.Replace(h.server.URL(), "://", "://"+user, 1)
			for _, client := range []string{"go-redis", "rueidis"} {
				for _, flags := range [][]string{nil, {"--json"}} {
					answer := invoke("", append([]string{"check", "--redis", url, "--client", client}, flags...)...)
					require.Equal(t, want, answer.code, answer.out+answer.errs)
					require.NotContains(t, answer.out+answer.errs, "SECRET")
				}
			}
		}
	})
	t.Run("an_old_Redis_is_one_finding_and_belay_work_refuses_it", func(t *testing.T) {
		t.Parallel()
		url := drivertest.Older(t, "6.2.14")
		for _, client := range []string{"go-redis", "rueidis"} {
			answer := invoke("", "check", "--redis", url, "--client", client)
			require.Equal(t, exitFailure, answer.code)
			require.Regexp(t, `^bad   version .*Redis 6\.2\.14 is too old.*\n +-> upgrade to Redis 7\.0 or newer\n$`, answer.out)
			require.Equal(t, "belay check: 1 of 1 findings are bad\n", answer.errs)
			// A worker reaps all children of its process, so it has one of its own.
			out, err := exec.Command(binary, "work", "--redis", url, "--client", client, "--exec", "A=true").CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, exitFailure, exit.ExitCode())
			require.Contains(t, string(out), "this is Redis 6.2.14, and Belay needs Redis 7.0 or newer")
		}
	})
	t.Run("no_Redis_is_exit_status_1_and_a_wrong_line_2", func(t *testing.T) {
		t.Parallel()
		answer := invoke("", "check", "--redis", "redis://127.0.0.1:1/0")
		require.Equal(t, exitFailure, answer.code)
		require.Contains(t, answer.errs, "is Redis running there?")
		require.Empty(t, answer.out)
		require.Equal(t, exitUsage, invoke("", "check", "x").code)
		require.Equal(t, exitUsage, invoke("", "check", "--nosuch").code)
	})
}

// What a server says of itself controls no terminal.
func TestFindingsArePrintedPlain(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	rows := newTable(&out)
	printFindings(rows, check.Findings{{Name: "version", Severity: check.SeverityWarn, Found: "\x1b[31m\nbad", Advice: "\a"}})
	require.NoError(t, rows.Flush())
	require.Equal(t, 2, strings.Count(out.String(), "\n"))
	require.NotContains(t, out.String(), "\x1b")
	require.NotContains(t, out.String(), "\a")
}

func TestWorkLogsBadFindingsAndRuns(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			h := privateHouse(t, "--appendonly", "yes", "--maxmemory-policy", "volatile-lru")
			w := h.startWorker(t, "--client", client, "--timestamps", "milliseconds", "--exec", "A=sh -c 'echo ran >out'")
			w.awaitLog("maxmemory-policy is volatile-lru")
			h.push("A")
			require.Equal(t, "ran\n", w.awaitFile("out"))
			w.signal(syscall.SIGTERM)
			require.Zero(t, w.awaitEnd())
			require.Equal(t, 1, strings.Count(w.errs.String(), "maxmemory-policy is"), w.errs.String())
			require.NotContains(t, w.errs.String(), "AOF", "what is ok is not logged")
		})
	}
}
