package integration

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

// newRubySite is an audited server without a prefix, because Sidekiq knows none.
func newRubySite(t *testing.T, options ...oracle.Option) (*site, *rubySide) {
	t.Helper()
	s := newSite(t, audited(t, append(options, oracle.Prefix(""), oracle.Foreign(5*time.Second))...))
	s.use("")
	return s, startRuby(t, s.url)
}

// eachClientWithRuby runs a test with either of Belay's Redis clients.
func eachClientWithRuby(t *testing.T, test func(t *testing.T, s *site, ruby *rubySide), options ...oracle.Option) {
	t.Helper()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			s, ruby := newRubySite(t, options...)
			s.client = client
			test(t, s, ruby)
		})
	}
}

// What Ruby enqueues, one by one and in bulk, Belay runs, with the args byte for byte as Ruby wrote them.
func TestRubyEnqueuesAndBelayWorks(t *testing.T) {
	t.Parallel()
	eachClientWithRuby(t, func(t *testing.T, s *site, ruby *rubySide) {
		book := newLedger(t)
		var single, many []rubyPush
		ruby.ask(t, &single, "perform_async", 200)
		ruby.ask(t, &many, "push_bulk", 100)
		pushed := append(single, many...)
		require.Len(t, pushed, 300)
		require.EqualValues(t, 300, ruby.stats(t).Enqueued)

		s.work("-q", "mail", "-q", "default", "-c", "4", "--exec", book.exec("*"))
		eventually(t, "all jobs to be done", func() bool { return ruby.stats(t).Processed >= 300 })
		starts := make(map[string][]mark)
		for _, start := range book.starts("") {
			starts[start.JID] = append(starts[start.JID], start)
		}
		for _, job := range pushed {
			require.Len(t, starts[job.JID], 1, "runs of %s", job.JID)
			start := starts[job.JID][0]
			require.Equal(t, job.Args, string(start.Input))
			require.Equal(t, []string{job.Class, job.Queue, "0"}, []string{start.Class, start.Queue, start.RetryCount})
		}
		stats := ruby.stats(t)
		require.EqualValues(t, 300, stats.Processed)
		require.EqualValues(t, 300, stats.ProcessedLately)
		require.Zero(t, stats.Failed)
		require.Zero(t, stats.FailedLately)
		require.Zero(t, stats.Enqueued)
		require.Equal(t, map[string]int64{"default": 0, "mail": 0}, stats.Queues)
	})
}

// Sidekiq's API, and so its dashboard, lists Belay's processes and what they run, and its buttons work.
func TestRubySeesAndControlsBelay(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	s, ruby := newRubySite(t)
	for n := range 3 {
		ruby.push(t, map[string]any{"class": "Held", "args": []any{n, "é"}, "queue": "default"})
	}
	var queue rubyQueue
	ruby.ask(t, &queue, "queue", "default")
	require.Equal(t, 3, queue.Size)
	items := make(map[string]map[string]any)
	for _, job := range queue.Jobs {
		items[job.JID] = job.Item
	}
	gate := filepath.Join(t.TempDir(), "gate")
	hold := `Held=sh -c 'until [ -e "$0" ]; do sleep 0.1; done' ` + gate
	p := s.work(append(fast, "-q", "default", "-q", "mail", "-c", "2", "--tag", "blue", "--name", "node-7", "--exec", hold)...)
	identity := p.identities()[0]

	var workers rubyWorkers
	eventually(t, "Ruby to see two running jobs", func() bool {
		workers = rubyWorkers{}
		ruby.ask(t, &workers, "workers")
		return len(workers.Works) == 2 && workers.Size == 2
	})
	t.Run("every field of a running job", func(t *testing.T) {
		require.NotEqual(t, workers.Works[0].TID, workers.Works[1].TID)
		for _, run := range workers.Works {
			require.Equal(t, identity, run.Identity)
			require.NotEmpty(t, run.TID)
			require.Equal(t, "default", run.Work.Queue)
			at, err := strconv.ParseInt(string(run.Work.RunAt), 10, 64)
			require.NoError(t, err, "run_at is whole seconds")
			require.WithinRange(t, time.Unix(at, 0), begun.Truncate(time.Second), time.Now())
			jid, _ := run.Work.Payload["jid"].(string)
			require.Equal(t, items[jid], run.Work.Payload)
		}
	})
	t.Run("every field of the process", func(t *testing.T) {
		set := ruby.processes(t)
		require.Equal(t, 1, set.Size)
		require.Len(t, set.Processes, 1)
		process := set.Processes[0]
		require.Equal(t, identity, process.Identity)
		require.Equal(t, "node-7", process.Hostname)
		require.Equal(t, p.pid, process.PID)
		require.Equal(t, "blue", process.Tag)
		require.Equal(t, []string{}, process.Labels)
		require.Equal(t, []string{"default", "mail"}, process.Queues)
		require.Equal(t, 2, process.Concurrency)
		require.Equal(t, 2, set.TotalConcurrency)
		require.Equal(t, 2, process.Busy)
		require.Equal(t, "false", process.Quiet)
		require.False(t, process.Stopping)
		require.Equal(t, "Float", process.StartedClass)
		require.InDelta(t, seconds(begun), process.StartedAt, patience.Seconds())
		require.InDelta(t, seconds(time.Now()), process.Beat, patience.Seconds())
		require.Positive(t, process.RSS)
		require.Equal(t, process.RSS, set.TotalRSS)
		require.NotNil(t, process.RTT)
		require.Empty(t, set.Leader)
	})
	t.Run("every counter", func(t *testing.T) {
		stats := ruby.stats(t)
		require.EqualValues(t, 1, stats.Enqueued)
		require.EqualValues(t, 1, stats.Processes)
		require.EqualValues(t, 2, stats.Workers)
		require.Equal(t, map[string]int64{"default": 1}, stats.Queues)
		ruby.ask(t, &queue, "queue", "default")
		require.Equal(t, 1, queue.Size)
		require.InDelta(t, time.Since(begun).Seconds()/2, queue.Latency, time.Since(begun).Seconds()/2+1)
		require.InDelta(t, stats.DefaultLatency, queue.Latency, 5)
	})
	left := s.list(s.keys.Queue("default"))
	t.Run("a thread dump is written to the log", func(t *testing.T) {
		ruby.ask(t, nil, "dump_threads", identity)
		p.awaitLog("goroutine ")
	})
	t.Run("quiet! quiets", func(t *testing.T) {
		ruby.ask(t, nil, "quiet!", identity)
		eventually(t, "Ruby to see it quiet", func() bool { return ruby.processes(t).Processes[0].Stopping })
		require.NoError(t, os.WriteFile(gate, nil, 0o600))
		eventually(t, "running jobs to be done", func() bool { return ruby.stats(t).Processed == 2 })
		require.False(t, p.ended())
	})
	t.Run("stop! stops", func(t *testing.T) {
		ruby.ask(t, nil, "stop!", identity)
		require.Zero(t, p.wait())
		require.Empty(t, ruby.processes(t).Processes)
		ruby.ask(t, &workers, "workers")
		require.Empty(t, workers.Works)
		require.EqualValues(t, 2, ruby.stats(t).Processed)
		require.Equal(t, left, s.list(s.keys.Queue("default")), "a quiet process takes nothing")
	})
}

// waitTerm ends a process of ours by SIGTERM.
func waitTerm(t *testing.T, p *process) {
	t.Helper()
	p.signal(syscall.SIGTERM)
	require.Zero(t, p.wait())
}
