package integration

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/logbook"
)

// An operator empties Redis while jobs run. What was in it is gone; the workers are not.
func TestFlushAll(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run("stops no worker and leaves nothing of the old jobs, "+client, func(t *testing.T) {
			t.Parallel()
			s, book := newSite(t, audited(t)), newLedger(t)
			s.client = client
			old := []string{s.push("Long", "default", jsonArgs(1, 0)), s.push("Failing", "default", jsonArgs(2, 0))}
			enough := newLeave(t)
			words := []string{"--exec", book.exec("*"), "--exec", book.exec("Long", "-until", enough.path),
				"--exec", book.exec("Failing", "-until", enough.path, "-fail", "as asked")}
			workers := []*process{s.work(words...), s.work(words...)}
			for _, jid := range old {
				book.awaitStart(jid, 1)
			}
			s.do("FLUSHALL")
			flushed := time.Now()
			eventually(t, "both to be registered anew", func() bool { return len(s.set(s.keys.Alive())) == 2 })
			t.Logf("registered anew after %v", time.Since(flushed)) // by its next beat, if the machine is idle
			for _, w := range workers {
				w.awaitLog("re-registered with a new identity")
				require.Contains(t, s.set(s.keys.Alive()), w.identities()[1])
			}
			for n := range 4 {
				book.awaitEnd(s.push("Short", "default", jsonArgs(n, 0)))
			}
			enough.give()
			for _, jid := range old {
				book.awaitEnd(jid)
			}
			// A stop waits for every end to be answered.
			for _, w := range workers {
				w.signal(syscall.SIGTERM)
				require.Zero(t, w.wait(), w.log())
			}
			require.Equal(t, "4", s.text(s.keys.Processed()), "the new ones alone")
			require.Empty(t, s.text(s.keys.Failed()))
			require.Empty(t, s.set(s.keys.Retry()))
			require.Len(t, book.starts(""), len(old)+4)
		})
	}
}

// flushing is how long Redis is made to forget all scripts. BELAY_LONG=1 takes a minute.
func flushing() time.Duration {
	if os.Getenv("BELAY_LONG") == "1" {
		return time.Minute
	}
	return 4 * time.Second
}

// Redis forgets every script fifty times a second while producers and workers do all they can, and no
// program notices.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	for name := range openers {
		t.Run("is noticed by no program, "+name, func(t *testing.T) {
			s := newSite(t, audited(t))
			s.client = name
			load := startLoad(t, s)
			flushes := 0
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for until := time.Now().Add(flushing()); time.Now().Before(until); flushes++ {
				<-tick.C
				s.do("SCRIPT", "FLUSH", "SYNC")
			}
			pushed := load.stop()
			t.Logf("%d flushes, %d jobs", flushes, pushed)
			eventually(t, "all to be counted", func() bool { return s.text(s.keys.Processed()) == strconv.Itoa(pushed) })
			require.Zero(t, load.again.Load(), "jobs that ran again")
			require.EqualValues(t, pushed, load.ran.Load())
			require.Empty(t, s.text(s.keys.Failed()))
			require.Empty(t, slices.DeleteFunc(load.log.complaints(), aStall.MatchString))
		})
	}
}

// A load is a worker in this process, and a producer that keeps its queue full.
type load struct {
	t          *testing.T
	log        *log
	ran, again atomic.Int64
	seen       sync.Map // numbers of jobs that have run
	end        context.CancelFunc
	ended      chan error
	pushed     int // read it after ended
}

func startLoad(t *testing.T, s *site) *load {
	t.Helper()
	l := &load{t: t, log: &log{}, ended: make(chan error, 1)}
	logger := slog.New(logbook.JSON(l.log, slog.LevelInfo))
	s.do("SADD", s.keys.Queues(), "default") // no warning of a queue that does not exist yet
	s.run(launcher.Config{Client: s.driverOf(check.RoleWorker), Concurrency: 50, Log: logger}, func(_ context.Context, j *job.Job) error {
		if _, again := l.seen.LoadOrStore(j.ArgsJSON(), true); again {
			l.again.Add(1)
		}
		l.ran.Add(1)
		return nil
	})
	pusher := s.clientOf(check.RoleProducer)
	ctx, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	l.end = end
	go func() { l.ended <- l.push(ctx, pusher) }()
	return l
}

// slice is how many jobs are pushed at once. One of them is for later, so that the poller has work too.
const slice = 200

// push pushes slice after slice, while there are few that have not run.
func (l *load) push(ctx context.Context, pusher *client.Client) error {
	for ctx.Err() == nil {
		if int64(l.pushed)-l.ran.Load() > 20*slice {
			time.Sleep(time.Millisecond) // full enough
			continue
		}
		for _, err := range pusher.PushSlices(context.Background(), func(yield func(client.RawJob) bool) {
			for n := range slice {
				j := client.RawJob{Class: "Any", ArgsJSON: fmt.Sprintf("[%d]", l.pushed+n)}
				if n == 0 {
					j.In = 50 * time.Millisecond
				}
				if !yield(j) {
					return
				}
			}
		}) {
			if err != nil {
				return err
			}
		}
		l.pushed += slice
	}
	return nil
}

// stop ends the producer and answers how many jobs it has pushed.
func (l *load) stop() int {
	l.t.Helper()
	l.end()
	require.NoError(l.t, receive(l.t, "the producer's end", l.ended), "a push failed")
	return l.pushed
}

// A log is what a worker in this process says. Its methods may be called from any goroutine.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// aStall matches what a program may say on a machine that stalls, although all is well with Redis.
var aStall = regexp.MustCompile(`"redis is away;|"slow link: smaller pages`)

// complaints are the lines that are warnings or worse.
func (l *log) complaints() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for line := range strings.Lines(l.text.String()) {
		if !strings.Contains(line, `"level":"info"`) {
			lines = append(lines, line)
		}
	}
	return lines
}
