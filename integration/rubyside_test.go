package integration

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rubySide is a Ruby process with Sidekiq's own client and API, which answers questions:
// testdata/sidekiq_client.rb. What it says of Belay's jobs and processes is what operators see.
type rubySide struct {
	mu      sync.Mutex
	in      io.Writer
	answers *bufio.Reader
}

// needSidekiq fails a test that cannot speak to the real Sidekiq: nothing else would prove what it is to prove.
func needSidekiq(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("ruby", "-e", `require "sidekiq"`).CombinedOutput(); err != nil {
		t.Fatalf("the real Sidekiq is missing: apt-get install ruby-sidekiq (%v: %s)", err, out)
	}
}

// startRuby starts the Ruby side on the Redis at url, with these variables, until the test ends.
func startRuby(t *testing.T, url string, env ...string) *rubySide {
	t.Helper()
	needSidekiq(t)
	cmd := exec.Command("ruby", "-W0", filepath.Join("testdata", "sidekiq_client.rb"))
	cmd.Env = append(os.Environ(), append(env, "REDIS_URL="+url)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // the end of its questions is its end
		_ = cmd.Wait()
	})
	return &rubySide{in: in, answers: bufio.NewReader(out)}
}

// ask puts one question and reads the answer into value, unless that is nil.
func (r *rubySide) ask(t *testing.T, value any, verb string, args ...any) {
	t.Helper()
	require.NoError(t, r.try(value, verb, args...), verb)
}

func (r *rubySide) try(value any, verb string, args ...any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	question, err := json.Marshal(append([]any{verb}, args...))
	if err != nil {
		return err
	}
	if _, err := r.in.Write(append(question, '\n')); err != nil {
		return err
	}
	line, err := r.answers.ReadBytes('\n')
	if err != nil {
		return err
	}
	var answer struct {
		Value json.RawMessage
		Error string
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return rubyError(answer.Error)
	}
	if value == nil {
		return nil
	}
	return json.Unmarshal(answer.Value, value)
}

// rubyError is an exception, as Ruby describes it.
type rubyError string

func (e rubyError) Error() string { return string(e) }

// A rubyPush is a job that Ruby has pushed, as the worker must be given it.
type rubyPush struct{ JID, Queue, Class, Args string }

// rubyStats is Sidekiq::Stats.
type rubyStats struct {
	Processed       int64            `json:"processed"`
	Failed          int64            `json:"failed"`
	Enqueued        int64            `json:"enqueued"`
	Retries         int64            `json:"retry_size"`
	Dead            int64            `json:"dead_size"`
	Processes       int64            `json:"processes_size"`
	Workers         int64            `json:"workers_size"`
	Queues          map[string]int64 `json:"queues"`
	DefaultLatency  float64          `json:"default_queue_latency"`
	ProcessedLately int64            `json:"processed_lately"`
	FailedLately    int64            `json:"failed_lately"`
}

// rubyProcesses is Sidekiq::ProcessSet with every field that its API reads.
type rubyProcesses struct {
	Size             int    `json:"size"`
	TotalConcurrency int    `json:"total_concurrency"`
	TotalRSS         int    `json:"total_rss"`
	Leader           string `json:"leader"`
	Processes        []struct {
		Identity     string   `json:"identity"`
		Tag          string   `json:"tag"`
		Labels       []string `json:"labels"`
		Queues       []string `json:"queues"`
		Stopping     bool     `json:"stopping"`
		Hostname     string   `json:"hostname"`
		StartedAt    float64  `json:"started_at"`
		StartedClass string   `json:"started_class"`
		PID          int      `json:"pid"`
		Concurrency  int      `json:"concurrency"`
		Busy         int      `json:"busy"`
		Beat         float64  `json:"beat"`
		Quiet        string   `json:"quiet"`
		RSS          int      `json:"rss"`
		RTT          *int     `json:"rtt_us"`
	} `json:"processes"`
}

// rubyWorkers is Sidekiq::Workers: what runs where.
type rubyWorkers struct {
	Size  int `json:"size"`
	Works []struct {
		Identity string `json:"identity"`
		TID      string `json:"tid"`
		Work     struct {
			Queue   string          `json:"queue"`
			RunAt   json.RawMessage `json:"run_at"`
			Payload map[string]any  `json:"payload"`
		} `json:"work"`
	} `json:"works"`
}

// A rubyEntry is one entry of the retry or the dead set, in Sidekiq's words.
type rubyEntry struct {
	Score          float64        `json:"score"`
	At             float64        `json:"at"`
	JID            string         `json:"jid"`
	Class          string         `json:"class"`
	Queue          string         `json:"queue"`
	Args           string         `json:"args"`
	Item           map[string]any `json:"item"`
	IsError        bool           `json:"is_error"`
	ErrorClass     string         `json:"error_class"`
	ErrorMessage   string         `json:"error_message"`
	ErrorBacktrace []string       `json:"error_backtrace"`
	RetryCount     *int           `json:"retry_count"`
	FailedAt       float64        `json:"failed_at"`
	Latency        float64        `json:"latency"`
	CreatedAt      float64        `json:"created_at"`
	EnqueuedAt     float64        `json:"enqueued_at"`
	// SameBytes says that Ruby would write the entry as it stands: what ZINCRBY and ZREM go by.
	SameBytes bool `json:"same_bytes"`
}

// A rubyQueue is Sidekiq::Queue.
type rubyQueue struct {
	Size    int     `json:"size"`
	Latency float64 `json:"latency"`
	Jobs    []struct {
		JID     string         `json:"jid"`
		Class   string         `json:"class"`
		Args    string         `json:"args"`
		Latency float64        `json:"latency"`
		Item    map[string]any `json:"item"`
		Bytes   string         `json:"bytes"`
	} `json:"jobs"`
}

// entries are a set's, by jid.
func (r *rubySide) entries(t *testing.T, set string) map[string]rubyEntry {
	t.Helper()
	var list []rubyEntry
	r.ask(t, &list, "set", set)
	byJID := make(map[string]rubyEntry, len(list))
	for _, entry := range list {
		byJID[entry.JID] = entry
	}
	require.Len(t, byJID, len(list), "no job is in a set twice")
	return byJID
}

// seconds is an instant as Ruby's API gives it.
func seconds(at time.Time) float64 { return float64(at.UnixMicro()) / 1e6 }

// stats is Sidekiq::Stats now.
func (r *rubySide) stats(t *testing.T) (stats rubyStats) {
	t.Helper()
	r.ask(t, &stats, "stats")
	return stats
}

// processes is Sidekiq::ProcessSet now.
func (r *rubySide) processes(t *testing.T) (processes rubyProcesses) {
	t.Helper()
	r.ask(t, &processes, "processes")
	return processes
}

// push pushes a job by Sidekiq::Client and answers its jid.
func (r *rubySide) push(t *testing.T, item map[string]any) (jid string) {
	t.Helper()
	r.ask(t, &jid, "push", item)
	return jid
}
