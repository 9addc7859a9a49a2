package launcher_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// connections returns what the connections to a server do, without the one that asks: "subscribe" for one that is
// subscribed, whatever it has sent since (clients send it pings), and for another one its last command.
func connections(t *testing.T, server *drivertest.Server) (commands []string) {
	t.Helper()
	list, err := server.Do(t.Context(), "CLIENT", "LIST")
	require.NoError(t, err)
	for line := range strings.Lines(list.(string)) {
		_, command, _ := strings.Cut(line, " cmd=")
		command, _, _ = strings.Cut(command, " ")
		if !strings.Contains(line, " sub=0 ") {
			command = "subscribe"
		}
		if command != "client|list" {
			commands = append(commands, command)
		}
	}
	return commands
}

// Of the worker that polls, besides one for each queue at which it waits. The worker uses none of the program's own
// client. docs/operations.md has these numbers.
const idleConnections = 5

func TestAnIdleWorkerHasFewConnections(t *testing.T) {
	t.Parallel()
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := drivertest.Start(t)
			r := newRig(t, open, server.URL(), "app")
			r.do("PING")
			for workers := range 2 { // the first one polls, the second one stands by
				before := len(connections(t, server))
				cfg := r.config()
				cfg.Queues = []fetch.Queue{{Name: "misspelled"}} // the worker looks whether it exists
				cfg.Client = newRig(t, open, server.URL(), "app").client
				w := r.start(r.build(cfg))
				var all []string
				r.eventually("it to be idle", func() bool {
					all = connections(t, server)
					require.LessOrEqual(t, len(all)-before, idleConnections+1-workers, "%q", all)
					return count(all, "blmove") > workers && count(all, "subscribe") > workers &&
						strings.Count(r.log.String(), launcher.QueuesUnknown) > workers && r.do("SISMEMBER", r.keys.Processes(), w.Identity()) == int64(1)
				})
				t.Logf("%d %q", len(all)-before, all)
			}
		})
	}
}

// A server has room for the client of the test, a heartbeat and a loop, and for nothing else.
func TestDutiesLeaveTheirConnectionsToAHeartbeatAndASettle(t *testing.T) {
	t.Parallel()
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := drivertest.Start(t)
			r := newRig(t, open, server.URL(), "app")
			ran := make(chan struct{}, 1)
			l := r.build(r.config())
			l.Handle("A", func(context.Context, *job.Job) error { ran <- struct{}{}; return nil }, launcher.Class{})
			w := r.start(l)
			idle := func() bool {
				all := connections(t, server)
				return count(all, "blmove") == 1 && count(all, "subscribe") == 1
			}
			r.eventually("it to be idle", idle)
			identity := w.Identity()

			expiry := func() time.Time {
				text, _ := r.do("ZSCORE", r.keys.Alive(), identity).(string)
				expiry, _ := strconv.ParseFloat(text, 64)
				return time.UnixMilli(int64(expiry))
			}
			r.do("CONFIG", "SET", "maxclients", "3")
			r.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") // the subscription stays
			for n := range 3 {
				begun := time.Now()
				r.push("A", "[]")
				receive(t, "a job to run", ran)
				r.eventually("the job to be settled", func() bool { return r.counter(r.keys.Processed()) == strconv.Itoa(n+1) })
				r.eventually("heartbeats", func() bool { return expiry().After(begun.Add(r.config().TTL + time.Second)) })
			}
			require.Equal(t, identity, w.Identity())

			r.do("CONFIG", "SET", "maxclients", "100")
			// The waits stay closed for up to a minute after several refusals.
			drivertest.Eventually(t, idle, 2*time.Minute, 20*time.Millisecond, "all connections are back")
		})
	}
}

func count(commands []string, command string) (n int) {
	for _, c := range commands {
		if c == command {
			n++
		}
	}
	return n
}
