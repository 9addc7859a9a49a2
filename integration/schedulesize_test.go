package integration

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

const (
	// dueAtOnce is how many jobs are due at one instant.
	dueAtOnce = 50_000
	// longest is how long one script may keep Redis from other clients. A page takes a tenth of it.
	longest = 10 * time.Millisecond
	// rare is the share of a script's calls that may take longer, if they are more than one: the clock goes on while
	// a busy machine does something else, which meets some calls of a script that has thousands.
	rare = 0.01
	// loggedCalls is how many calls the server remembers: all of one go, but for BELAY_LONG=1.
	loggedCalls = 100_000
)

// Many jobs that are due at one instant are promoted once each, and meanwhile Redis answers other clients.
func TestManyJobsDueAtOneInstant(t *testing.T) {
	for name := range openers {
		t.Run(name, func(t *testing.T) {
			s := ordinarySite(t)
			s.client = name
			keepsNoClientWaiting(t, s, longest, func() { requireAllPromoted(t, s.anew(t)) })
		})
	}
}

// keepsNoClientWaiting holds that no script of some work keeps the server from other clients for longer than most.
// Slow may be a script, or a machine that did something else in its middle. The script is so every time.
func keepsNoClientWaiting(t *testing.T, s *site, most time.Duration, work func()) {
	t.Helper()
	ahead(t, s)
	// The log of slow calls is one of all calls: how many there were of a script is known nowhere else.
	s.do("CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", fmt.Sprint(loggedCalls))
	guilty := make(map[string]int)
	const goes = 3
	for range goes {
		s.do("SLOWLOG", "RESET")
		work()
		slow := slowScripts(s, most)
		for script, calls := range slow {
			t.Logf("%s: %d of %d calls over %v, the longest took %v", script, calls.slow, calls.all, most, calls.longest)
			if float64(calls.slow) > max(1, rare*float64(calls.all)) {
				guilty[script]++
			}
		}
		if len(guilty) == 0 {
			return
		}
	}
	for script, times := range guilty {
		require.Less(t, times, goes, "%s keeps Redis from other clients, every time", script)
	}
}

func requireAllPromoted(t *testing.T, s *site) {
	t.Helper()
	var mu sync.Mutex
	runs, all := make(map[string]int, dueAtOnce), make(chan struct{})
	first := time.Time{}
	handler := func(_ context.Context, j *job.Job) error {
		mu.Lock()
		defer mu.Unlock()
		if len(runs) == 0 {
			first = time.Now()
		}
		runs[j.JID()]++
		if runs[j.JID()] == 1 && len(runs) == dueAtOnce {
			close(all)
		}
		return nil
	}
	due := time.Now().Add(3 * time.Second).Truncate(time.Second) // pushing takes one, on an idle machine
	pushDue(t, s, due)
	waited := max(time.Since(due), 0)
	for range 2 { // one polls, both run what is due
		s.run(launcher.Config{Client: s.driverOf(check.RoleWorker), Concurrency: 50}, handler)
	}
	eventually(t, "all to be promoted", func() bool { return s.do("ZCARD", s.keys.Schedule()) == int64(0) })
	promoted := time.Since(due) - waited
	receive(t, "all to be run", all)
	t.Logf("%d jobs due at one instant: promoted within %v, run within %v", dueAtOnce, promoted.Round(time.Millisecond), (time.Since(due) - waited).Round(time.Millisecond))
	eventually(t, "each to be counted once", func() bool { return s.text(s.keys.Processed()) == fmt.Sprint(dueAtOnce) })
	mu.Lock()
	defer mu.Unlock()
	require.False(t, first.Before(due), "early")
	for jid, times := range runs {
		require.Equal(t, 1, times, "runs of %s", jid)
	}
}

// pushDue schedules half of the due jobs by Belay's client and half as Ruby does.
func pushDue(t *testing.T, s *site, due time.Time) {
	t.Helper()
	for _, err := range s.clientOf(check.RoleProducer).PushSlices(t.Context(), func(yield func(client.RawJob) bool) {
		for n := range dueAtOnce / 2 {
			if !yield(client.RawJob{Class: "Timed", ArgsJSON: fmt.Sprintf("[%d]", n), At: due}) {
				return
			}
		}
	}) {
		require.NoError(t, err)
	}
	for range dueAtOnce / 2 / 1000 {
		words := []string{"ZADD", s.keys.Schedule()}
		for n := range 1000 {
			words = append(words, fmt.Sprint(due.Unix()), rubyPayload("Timed", "default", fmt.Sprintf("[%d]", n), newJID()))
		}
		s.do(words...)
	}
}

// scriptCalls are the calls of a script.
type scriptCalls struct {
	all, slow int
	longest   time.Duration
}

// slowScripts are the scripts of which a call in the server's log took longer than most.
func slowScripts(s *site, most time.Duration) map[string]scriptCalls {
	s.t.Helper()
	scripts := make(map[string]scriptCalls)
	entries, _ := s.do("SLOWLOG", "GET", fmt.Sprint(loggedCalls)).([]any)
	for _, entry := range entries {
		parts, _ := entry.([]any)
		micros, _ := parts[2].(int64)
		if words := texts(parts[3]); strings.HasPrefix(words[0], "EVAL") {
			calls, took := scripts[words[1]], time.Duration(micros)*time.Microsecond
			calls.all++
			if took > most {
				calls.slow++
			}
			calls.longest = max(calls.longest, took)
			scripts[words[1]] = calls
		}
	}
	maps.DeleteFunc(scripts, func(_ string, calls scriptCalls) bool { return calls.slow == 0 })
	return scripts
}

// ahead has the server's thread run before whatever else the machine does, where we may: the slow log measures
// time that passes, not time that is used.
func ahead(t *testing.T, s *site) {
	t.Helper()
	about, _ := s.do("INFO", "server").(string)
	_, rest, found := strings.Cut(about, "process_id:")
	require.True(t, found)
	pid, _, _ := strings.Cut(rest, "\r")
	if out, err := exec.Command("chrt", "--fifo", "--pid", "1", pid).CombinedOutput(); err != nil {
		t.Logf("the server runs like all other processes (%v): %s", err, out)
	}
}
