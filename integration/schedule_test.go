package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/drivertest"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/retry"
)

// Never early is judged by Redis' clock, which here is this machine's.
func TestSchedule(t *testing.T) {
	for name, open := range openers {
		t.Run("runs each job once and none early, "+name, func(t *testing.T) {
			s := newSite(t, drivertest.Redis(t))
			redis, err := open(s.url)
			require.NoError(t, err)
			t.Cleanup(func() { _ = redis.Close() })
			noneEarly(t, s, redis)
		})
	}

	t.Run("a failed job runs again at its time and with its bytes", func(t *testing.T) {
		s := newSite(t, drivertest.Redis(t))
		redis, err := goredisdriver.Open(s.url)
		require.NoError(t, err)
		t.Cleanup(func() { _ = redis.Close() })
		runsAgain(t, s, redis)
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
func noneEarly(t *testing.T, s *site, redis driver.Client) {
	const jobs, span = 2000, 4 * time.Second
	var mu sync.Mutex
	var late []time.Duration
	early, all := 0, make(chan struct{})
	s.run(launcher.Config{Client: redis, Concurrency: 50}, func(_ context.Context, j *job.Job) error {
		now := time.Now()
		due, err := strconv.ParseInt(strings.Trim(j.ArgsJSON(), "[]"), 10, 64)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		by := now.Sub(time.UnixMicro(due))
		if by < 0 {
			early++
		}
		if late = append(late, by); len(late) == jobs {
			close(all)
		}
		return nil
	})
	pusher, err := client.New(redis, client.Config{Prefix: s.prefix})
	require.NoError(t, err)
	base := time.Now().Add(500 * time.Millisecond)
	for _, err := range pusher.PushSlices(t.Context(), func(yield func(client.Job) bool) {
		for range jobs / 2 {
			at := base.Add(rand.N(span)).Truncate(time.Microsecond)
			if !yield(client.Job{Class: "Timed", ArgsJSON: fmt.Sprintf("[%d]", at.UnixMicro()), At: at}) {
				return
			}
		}
	}) {
		require.NoError(t, err)
	}
	for range jobs / 2 {
		at := base.Add(rand.N(span)).Truncate(time.Millisecond)
		s.do("ZADD", s.keys.Schedule(), strconv.FormatFloat(float64(at.UnixMicro())/1e6, 'f', 6, 64),
			rubyPayload("Timed", "default", fmt.Sprintf("[%d]", at.UnixMicro()), newJID()))
	}
	receive(t, "all jobs", all)
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(late)
	t.Logf("late: p50 %v, p99 %v, worst %v", late[jobs/2], late[jobs*99/100], late[jobs-1])
	require.Zero(t, early, "none early")
	require.Empty(t, s.set(s.keys.Schedule()))
	eventually(t, "each to be counted once", func() bool { return s.text(s.keys.Processed()) == strconv.Itoa(jobs) })
}

func runsAgain(t *testing.T, s *site, redis driver.Client) {
	const oddArgs = `[9007199254740993,12345678901234567890,1.0,1e21,-0,[],{},[[],{}],{"a":{"z":[]}},"é<&>\u2028/"]`
	type seen struct {
		args, future string
		attempt      int
	}
	runs := make(chan seen, 8)
	s.run(launcher.Config{Client: redis}, func(ctx context.Context, j *job.Job) error {
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
