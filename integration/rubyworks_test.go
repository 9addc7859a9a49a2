package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// What Belay enqueues, a Ruby worker runs; and what it fails, Belay can read and run.
func TestBelayEnqueuesAndRubyWorks(t *testing.T) {
	t.Parallel()
	eachClientWithRuby(t, func(t *testing.T, s *site, ruby *rubySide) {
		args := `[9007199254740993,12345678901234567890,1.0,null,true,[],{},[[],{}],{"z":1,"a":{"z":[]}},"é<&>` + "\u2028" + `/\"\\\n"]`
		jids := make(map[string]bool)
		keep := func(out string) {
			for jid := range strings.Lines(out) {
				jids[strings.TrimSpace(jid)] = true
			}
		}
		for range 5 {
			var elements []json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(args), &elements))
			words := []string{"push", "Ran", "-q", "ruby"}
			for _, element := range elements {
				words = append(words, string(element))
			}
			out, errs, code := s.belay(words...)
			require.Zero(t, code, errs)
			keep(out)
		}
		file := filepath.Join(t.TempDir(), "jobs")
		require.NoError(t, os.WriteFile(file, []byte(strings.Repeat(`{"class":"Ran","args":`+args+`,"queue":"ruby"}`+"\n", 95)), 0o600))
		out, errs, code := s.belay("push", "--file", file)
		require.Zero(t, code, errs)
		keep(out)
		require.Len(t, jids, 100)

		worker, book := startSidekiq(t, s)
		ran := make(map[string]string)
		eventually(t, "Ruby to run all jobs", func() bool {
			text, err := os.ReadFile(book)
			for line := range strings.Lines(string(text)) {
				var pair [2]string
				if json.Unmarshal([]byte(line), &pair) == nil {
					ran[pair[0]] = pair[1]
				}
			}
			return err == nil && len(ran) >= len(jids)
		})
		for jid := range jids {
			require.Equal(t, args, ran[jid])
		}
		t.Run("belay status lists the Ruby process", func(t *testing.T) {
			eventually(t, "it to announce itself", func() bool { return len(s.status().Processes) == 1 })
			require.Equal(t, worker.Process.Pid, s.status().Processes[0].PID)
		})
		t.Run("what Ruby failed is read and run by Belay", func(t *testing.T) { requireFailedByRuby(t, s, ruby) })
	})
}

// requireFailedByRuby has a job fail in Ruby, reads it, and runs it in Belay.
func requireFailedByRuby(t *testing.T, s *site, ruby *rubySide) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jobs")
	require.NoError(t, os.WriteFile(file, []byte(`{"class":"Raises","args":[1.0],"queue":"ruby","backtrace":2}`), 0o600))
	out, errs, code := s.belay("push", "--file", file)
	require.Zero(t, code, errs)
	jid := strings.TrimSpace(out)
	eventually(t, "Ruby to fail it", func() bool { return len(s.set(s.keys.Retry())) == 1 })

	failed, err := job.Parse(s.set(s.keys.Retry())[0])
	require.NoError(t, err)
	require.Equal(t, jid, failed.JID())
	require.Equal(t, "[1.0]", failed.ArgsJSON())
	count, ok := failed.RetryCount()
	require.True(t, ok)
	require.Zero(t, count)
	_, ok = failed.FailedAt()
	require.True(t, ok)
	class, _ := failed.Text("error_class")
	require.Equal(t, "ArgumentError", class)
	message, _ := failed.Text("error_message")
	require.Equal(t, "no é <today> & \u2028 never", message)
	packed, _ := failed.Text("error_backtrace")
	lines, err := job.DecodeBacktrace(packed)
	require.NoError(t, err)
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], "sidekiq_worker.rb")

	// Ruby's own worker must not take it again: it gets a queue of its own, as an operator would give it.
	moved := failed.Patch(job.SetString("queue", "go"))
	s.do("ZREM", s.keys.Retry(), failed.Raw())
	s.do("RPUSH", s.keys.Queue("go"), moved)
	book := newLedger(t)
	p := s.work("-q", "go", "-c", "1", "--exec", book.exec("Raises"))
	start := book.awaitStart(jid, 1)
	require.Equal(t, "1", start.RetryCount, "one run of it has failed")
	require.Equal(t, "[1.0]", string(start.Input))
	waitTerm(t, p)
	require.Empty(t, ruby.entries(t, "retry"))
}

// startSidekiq starts Sidekiq's own worker on the queue "ruby", and answers it and the file that its jobs
// append to. It is stopped when the test ends.
func startSidekiq(t *testing.T, s *site, env ...string) (*exec.Cmd, string) {
	t.Helper()
	path, err := exec.LookPath("sidekiq")
	require.NoError(t, err, "the real Sidekiq is missing: apt-get install ruby-sidekiq")
	book := filepath.Join(t.TempDir(), "ledger")
	cmd := exec.Command(path, "-r", "./"+filepath.Join("testdata", "sidekiq_worker.rb"), "-q", "ruby", "-c", "2", "-t", "2")
	cmd.Env = append(os.Environ(), append(env, "REDIS_URL="+s.url, "LEDGER="+book, "RUBYOPT=-W0")...)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		err := cmd.Wait()
		if t.Failed() {
			t.Logf("sidekiq (%v) said:\n%.10000s", err, output.String())
		}
	})
	return cmd, book
}
