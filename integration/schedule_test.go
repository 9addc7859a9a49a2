package integration

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/retry"
)

// Never early is judged by Redis' clock, which here is this machine's.
func TestSchedule(t *testing.T) {
	t.Parallel()
	for name := range openers {
		t.Run("runs each job once and none early, "+name, func(t *testing.T) {
			t.Parallel() // it waits more than it works
			s := ordinarySite(t)
			s.client = name
			noneEarly(t, s)
		})
	}

	t.Run("a failed job runs again at its time and with its bytes", func(t *testing.T) {
		runsAgain(t, ordinarySite(t))
	})

	t.Run("belay push --in and --at wait, and what is past does not", func(t *testing.T) {
		s := ordinarySite(t)
		book := newLedger(t)
		s.work("--exec", book.exec("Later"))
		var jids []string
		before := time.Now()
		for _, words := range [][]string{{"--in", "700ms"}, {"--at", time.Now().Add(2 * time.Second).Format(time.RFC3339)}, {"--at", "2001-01-01T00:00:00Z"}} {
			out, errs, status := s.belay(append([]string{"push", "Later"}, words...)...)
			require.Zero(t, status, errs)
			jids = append(jids, strings.TrimSpace(out))
		}
		book.awaitStart(jids[0], 1)
		require.Greater(t, time.Since(before), 700*time.Millisecond)
		book.awaitStart(jids[1], 1)
		book.awaitStart(jids[2], 1)
		_, errs, status := s.belay("push", "Later", "--in", "1s", "--at", "2030-01-01T00:00:00Z")
		require.Equal(t, 2, status)
		require.Contains(t, errs, "give one")
	})
}

// noneEarly schedules jobs at random milliseconds, by Belay and as Ruby does, and measures when they start.
func noneEarly(t *testing.T, s *site) {
	const jobs, span = 5000, 10 * time.Second
	// A job that is due when it is pushed waits in no schedule, so all must be pushed by then.
	for slack := 2 * time.Second; ; slack *= 2 {
		base := time.Now().Add(slack)
		pushTimed(t, s, jobs, base, span)
		if time.Until(base) > time.Millisecond {
			break
		}
		require.Less(t, slack, patience, "pushing the jobs takes too long")
		s.do("FLUSHALL")
	}
	requireScores(t, s, jobs)

	var mu sync.Mutex
	var late []time.Duration
	all := make(chan struct{})
	s.run(launcher.Config{Client: s.driverOf(check.RoleWorker), Concurrency: 50}, func(_ context.Context, j *job.Job) error {
		now := time.Now()
		due, err := dueOf(j)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if late = append(late, now.Sub(due)); len(late) == jobs {
			close(all)
		}
		return nil
	})
	receive(t, "all jobs", all)
	eventually(t, "each to be counted once", func() bool { return s.text(s.keys.Processed()) == strconv.Itoa(jobs) })
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(late)
	t.Logf("late: p50 %v, p99 %v, worst %v", late[jobs/2], late[jobs*99/100], late[jobs-1])
	require.Len(t, late, jobs)
	require.GreaterOrEqual(t, late[0], time.Duration(0), "early")
	require.Empty(t, s.set(s.keys.Schedule()))
}

// pushTimed pushes jobs that are due at random milliseconds of a span, half of them by Belay and half as Ruby does.
func pushTimed(t *testing.T, s *site, jobs int, base time.Time, span time.Duration) {
	t.Helper()
	pusher := s.clientOf(check.RoleProducer)
	draw := func() time.Time { return base.Add(rand.N(span)).Truncate(time.Millisecond) }
	for _, err := range pusher.PushSlices(t.Context(), func(yield func(client.RawJob) bool) {
		for range jobs / 2 {
			if at := draw(); !yield(client.RawJob{Class: "Timed", ArgsJSON: fmt.Sprintf("[%d]", at.UnixMicro()), At: at}) {
				return
			}
		}
	}) {
		require.NoError(t, err)
	}
	for range jobs / 2 {
		at := draw()
		s.do("ZADD", s.keys.Schedule(), strconv.FormatFloat(float64(at.UnixMicro())/1e6, 'f', 6, 64),
			rubyPayload("Timed", "default", fmt.Sprintf("[%d]", at.UnixMicro()), newJID()))
	}
}

// requireScores holds that every scheduled job is due when its argument says.
func requireScores(t *testing.T, s *site, jobs int) {
	t.Helper()
	entries := texts(s.do("ZRANGE", s.keys.Schedule(), "0", "-1", "WITHSCORES"))
	require.Len(t, entries, 2*jobs)
	for i := 0; i < len(entries); i += 2 {
		parsed, err := job.Parse(entries[i])
		require.NoError(t, err)
		due, err := dueOf(parsed)
		require.NoError(t, err)
		score, err := strconv.ParseFloat(entries[i+1], 64)
		require.NoError(t, err)
		require.Equal(t, due.UnixMicro(), int64(math.Round(score*1e6)))
	}
}

// dueOf is a timed job's argument: when it is due, in microseconds since 1970.
func dueOf(j *job.Job) (time.Time, error) {
	micros, err := strconv.ParseInt(strings.Trim(j.ArgsJSON(), "[]"), 10, 64)
	return time.UnixMicro(micros), err
}

func runsAgain(t *testing.T, s *site) {
	const oddArgs = `[9007199254740993,12345678901234567890,1.0,1e21,-0,[],{},[[],{}],{"a":{"z":[]}},"é<&>\u2028/"]`
	type seen struct {
		args, future string
		attempt      int
	}
	runs := make(chan seen, 8)
	s.run(launcher.Config{Client: s.driverOf(check.RoleWorker)}, func(ctx context.Context, j *job.Job) error {
		info, _ := launcher.Info(ctx)
		future, _ := j.Field("x_future")
		runs <- seen{j.ArgsJSON(), future, info.Attempt}
		if info.Attempt <= 3 {
			return retry.In(50*time.Millisecond, fmt.Errorf("attempt %d", info.Attempt))
		}
		return nil
	})
	s.do("LPUSH", s.keys.Queue("default"),
		`{"retry":true,"queue":"default","args":`+oddArgs+`,"class":"Odd","jid":"0123456789abcdef01234567","created_at":1.5,"x_future":{"a":[1]}}`)
	for attempt := 1; attempt <= 4; attempt++ {
		require.Equal(t, seen{oddArgs, `{"a":[1]}`, attempt}, receive(t, "a run", runs))
	}
	eventually(t, "the runs to be counted", func() bool { return s.text(s.keys.Processed()) == "4" && s.text(s.keys.Failed()) == "3" })
}
