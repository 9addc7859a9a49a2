package activejob_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/activejob"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// soon is the time that a Ruby process may take on a busy machine.
const soon = time.Minute

type options struct {
	Template string        `json:"template"`
	Days     time.Duration `json:"days"`
}

type deep struct {
	Deep struct {
		User string    `json:"user"`
		At   time.Time `json:"at"`
	} `json:"deep"`
}

type invoice struct {
	ID       int64
	Large    int64
	Float    json.Number
	Nothing  *int
	Symbol   string
	Text     string
	User     string
	At       time.Time
	Zoned    time.Time
	DateTime time.Time
	Date     string
	Wait     time.Duration
	Half     time.Duration
	Price    string
	Module   string
	Nested   []any
	Deep     deep
	Options  options
}

var invoices = belay.Define[invoice]("Billing::InvoiceJob", belay.Queue("go"), belay.NotIdempotent("a test counts its runs"), activejob.Unwrap())

// A rails is a program with ActiveJob 6.1 and Sidekiq, with its own Redis.
type rails struct {
	t           *testing.T
	url, ledger string
	client      *belay.Client
}

func newRails(t *testing.T) *rails {
	t.Helper()
	if out, err := exec.Command("ruby", "-e", `require "active_job"; require "sidekiq"`).CombinedOutput(); err != nil {
		t.Fatalf("ActiveJob or Sidekiq is missing: apt-get install ruby-activejob ruby-sidekiq (%v: %s)", err, out)
	}
	r := &rails{t: t, url: drivertest.Start(t).URL(), ledger: filepath.Join(t.TempDir(), "ledger")}
	client, err := belay.Open(t.Context(), r.url, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	r.client = client
	return r
}

func (r *rails) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "REDIS_URL="+r.url, "LEDGER="+r.ledger, "RUBYOPT=-W0")
	cmd.Dir = "testdata"
	cmd.Stderr = os.Stderr
	return cmd
}

// work runs Sidekiq's own worker until the test ends.
func (r *rails) work(queue string) {
	r.t.Helper()
	cmd := r.command("sidekiq", "-r", "./jobs.rb", "-q", queue, "-c", "2", "-t", "2")
	require.NoError(r.t, cmd.Start())
	r.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

// runs waits until Ruby's jobs have written this number of lines, and returns them.
func (r *rails) runs(count int) (runs [][]any) {
	r.t.Helper()
	drivertest.Eventually(r.t, func() bool {
		text, _ := os.ReadFile(r.ledger)
		runs = nil
		for line := range bytes.Lines(text) {
			var run []any
			if json.Unmarshal(line, &run) == nil {
				runs = append(runs, run)
			}
		}
		return len(runs) >= count
	}, soon, 20*time.Millisecond)
	return runs
}

// serve runs the class on the queue "go" until this number of jobs have run, and returns them by ActiveJob's
// id.
func serve[T any](r *rails, class *belay.Definition[T], count int) map[string]ran[T] {
	r.t.Helper()
	server, err := belay.NewServer(r.client, belay.ServerConfig{Queues: belay.Queues("go")})
	require.NoError(r.t, err)
	runs := make(chan ran[T], count)
	class.Handle(server, func(ctx context.Context, args T) error {
		info, ok := activejob.Info(ctx)
		if !ok {
			return errors.New("no envelope")
		}
		runs <- ran[T]{args, info}
		return nil
	})
	ctx, stop := context.WithCancel(r.t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	got := make(map[string]ran[T])
	for range count {
		select {
		case run := <-runs:
			got[run.info.JobID] = run
		case <-time.After(soon):
			r.t.Fatal("a job does not run")
		}
	}
	stop()
	require.NoError(r.t, <-ended)
	return got
}

type ran[T any] struct {
	args T
	info activejob.Envelope
}

func pointer[T any](v T) *T { return &v }

func TestWhatRailsPushesGoRuns(t *testing.T) {
	t.Parallel()
	r := newRails(t)
	out, err := r.command("ruby", "jobs.rb").Output()
	require.NoError(t, err)
	var ids []string
	require.NoError(t, json.Unmarshal(out, &ids))

	got := serve(r, invoices, len(ids))
	run := got[ids[0]]
	for _, at := range []*time.Time{&run.args.At, &run.args.Zoned, &run.args.DateTime, &run.args.Deep.Deep.At} {
		require.Equal(t, "2026-11-23T08:30:00.123456789+01:00", at.Format(time.RFC3339Nano))
		*at = time.Time{}
	}
	var want invoice
	want.ID, want.Large, want.Float, want.Symbol, want.Text = 42, 9007199254740993, "1.0", "high", "é<_aj_>"
	want.User, want.Date, want.Wait, want.Half = "gid://shop/User/7", "2026-11-23", 90*time.Second, 1500*time.Millisecond
	want.Price, want.Module, want.Nested = "12.5", "Billing", []any{"a", []any{json.Number("300000000000")}}
	want.Deep.Deep.User, want.Options = "gid://shop/User/8", options{"short", 48 * time.Hour}
	require.Equal(t, want, run.args)
	require.Equal(t, "Billing::InvoiceJob go de Europe/Berlin",
		strings.Join([]string{run.info.JobClass, run.info.QueueName, run.info.Locale, *run.info.Timezone}, " "))
	require.Zero(t, run.info.Executions)
	require.Equal(t, invoice{}, got[ids[1]].args, "a job without arguments, which was scheduled")
}

type typed struct {
	Symbol activejob.Symbol
	User   activejob.GlobalID
	At     activejob.Time
	Wait   activejob.Duration
	Half   activejob.Duration
	Plain  []string
	Words  activejob.Keywords[struct {
		Template string           `json:"template"`
		Kind     activejob.Symbol `json:"kind"`
	}]
}

// Ruby gets the types that Go's types name, in the locale and zone of the envelope. Its retry is the same job.
func TestWhatGoPushesRailsRuns(t *testing.T) {
	t.Parallel()
	r := newRails(t)
	r.work("ruby")
	class := belay.Define[typed]("Billing::InvoiceJob", belay.Queue("ruby"), belay.NoRetry(), belay.NotIdempotent("a test counts its runs"), activejob.Unwrap())
	args := typed{Symbol: "high", User: "gid://shop/User/7", Wait: activejob.Duration(90 * time.Second), Half: activejob.Duration(1500 * time.Millisecond), Plain: []string{"é<"}}
	args.At.Time = time.Date(2026, 11, 23, 7, 30, 0, 123456789, time.UTC)
	args.Words.Value.Template, args.Words.Value.Kind = "short", "bill"
	receipt, err := class.Enqueue(t.Context(), r.client, args, activejob.Wrap(activejob.Envelope{Locale: "de", Timezone: pointer("UTC")}))
	require.NoError(t, err)
	require.Equal(t, []any{
		`[:high, #<struct User id=7>, Mon, 23 Nov 2026 08:30:00.123456789 CET +01:00, 90 seconds, 1.5 seconds, ["é<"]]`,
		`{:kind=>:bill, :template=>"short"}`, "de", "UTC", "ruby", 1.0, receipt.JID,
	}, r.runs(1)[0])

	// What fails in Ruby, Go retries, with the same envelope.
	const id = "5f0c1e9e-4c1b-4a0e-9a58-0d8f3a1f6f11"
	_, err = class.Enqueue(t.Context(), r.client, typed{Symbol: "fails"}, belay.Retries(1), activejob.Wrap(activejob.Envelope{JobID: id, Executions: 3}))
	require.NoError(t, err)
	r.runs(2)
	inspector := inspect.New(r.client)
	drivertest.Eventually(t, func() bool {
		tally, err := inspector.Act(t.Context(), inspect.Task{Home: inspect.Retries(), Action: inspect.Move, To: "go", Selection: inspect.Selection{Filter: inspect.Filter{Class: "Billing::InvoiceJob"}}}, nil)
		return err == nil && tally.Moved == 1
	}, soon, 20*time.Millisecond)
	_, err = inspector.Act(t.Context(), inspect.Task{Home: inspect.Retries(), Action: inspect.Retry, Selection: inspect.Selection{All: true}}, nil)
	require.NoError(t, err)
	retried := serve(r, class, 1)[id]
	require.Equal(t, activejob.Symbol("fails"), retried.args.Symbol)
	require.Equal(t, 3, retried.info.Executions)
}

// A job that failed in one language is the same job in the other.
func TestEachTypeIsReadBack(t *testing.T) {
	t.Parallel()
	class := belay.Define[typed]("A", activejob.Unwrap())
	args := typed{Symbol: "high", User: "gid://shop/User/7", Wait: activejob.Duration(90 * time.Second), Half: activejob.Duration(1500 * time.Millisecond), Plain: []string{}}
	args.At.Time = time.Date(2026, 11, 23, 7, 30, 0, 123456789, time.UTC)
	args.Words.Value.Template, args.Words.Value.Kind = "short", "bill"
	text, err := job.MarshalArgs(class.Job(args).Args)
	require.NoError(t, err)
	parsed, err := job.Parse(`{"class":"A","jid":"1","args":` + text + `}`)
	require.NoError(t, err)
	back, err := class.Args(parsed)
	require.NoError(t, err)
	require.Equal(t, args, back)
}
