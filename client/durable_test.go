package client

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/link"
)

// replicated starts a primary with two replicas, both in sync.
func replicated(t *testing.T) (primary *drivertest.Server, replicas [2]*drivertest.Server) {
	t.Helper()
	primary = drivertest.Start(t, "--repl-diskless-sync-delay", "0", "--repl-timeout", "600")
	for i := range replicas {
		replicas[i] = drivertest.Start(t, "--replicaof", "127.0.0.1 "+primary.Addr()[len("127.0.0.1:"):])
	}
	drivertest.Eventually(t, func() bool {
		_, err := primary.Do(t.Context(), "SET", "synced", "1")
		if err != nil {
			return false
		}
		for _, replica := range replicas {
			if value, err := replica.Do(t.Context(), "GET", "synced"); err != nil || value != "1" {
				return false
			}
		}
		return true
	}, 30*time.Second, 10*time.Millisecond, "the replicas to be in sync")
	return primary, replicas
}

// A replica is stopped: pushes that want both are stored, and say that a failover may lose them.
func TestAPushWaitsForItsReplicas(t *testing.T) {
	t.Parallel()
	primary, replicas := replicated(t)
	for name, open := range adapters.All { // one after the other, because both stop the replica
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, primary, open, Config{Replicas: 2, ReplicaTimeout: 20 * time.Second})
			receipt, err := w.client.Push(t.Context(), RawJob{Class: "A"})
			require.NoError(t, err)
			require.Equal(t, Receipt{JID: receipt.JID, Queue: DefaultQueue, Status: StatusQueued, Replicas: 2}, receipt)

			// Redis has lost its scripts: the first WAIT of the pipeline comes before the script that stores the job.
			w.do("SCRIPT", "FLUSH")
			drivertest.Eventually(t, func() bool { return acknowledged(w, 2) }, 30*time.Second, 10*time.Millisecond) // so that WAIT would be content
			faultproxy.Freeze(t, replicas[1].PID())()
			defer replicas[1].Cont()
			for _, j := range []RawJob{
				{Class: "A", PushOnce: true},
				{Class: "A", Key: "k"},
				{Class: "A", In: time.Hour},
				{Class: "A"},
			} {
				j.ReplicaTimeout = MaxReplicaTimeout
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					receipt, err = w.client.Push(t.Context(), j)
				}()
				w.timeOut(1, ended)
				require.ErrorIs(t, err, ErrReplicas)
				require.ErrorContains(t, err, "1 of 2 within 1m0s")
				require.True(t, receipt.Status.stored(), receipt.Status)
				require.Equal(t, 1, receipt.Replicas)
			}
			require.Len(t, w.queue(DefaultQueue), 4)
			duplicate, err := w.client.Push(t.Context(), RawJob{Class: "A", Key: "k", Replicas: 1})
			require.NoError(t, err)
			require.Equal(t, StatusDuplicate, duplicate.Status)
			require.Equal(t, 1, duplicate.Replicas, "that have the job with the key")

			replicas[1].Cont()
			receipts, err := w.client.PushMany(t.Context(), slices.Values(slices.Repeat([]RawJob{{Class: "A"}}, 3)))
			require.NoError(t, err)
			for _, receipt := range receipts {
				require.Equal(t, 2, receipt.Replicas)
			}
		})
	}
}

// acknowledged reports whether so many replicas have acknowledged all that the primary has.
func acknowledged(w *world, replicas int) bool {
	info := w.do("INFO", "replication").(string)
	_, offset, _ := strings.Cut(info, "master_repl_offset:")
	offset, _, _ = strings.Cut(offset, "\r")
	return strings.Count(info, ",offset="+offset+",") == replicas
}

// timeOut ends each WAIT as its timeout does, once so many replicas have acknowledged all, until ended is closed.
// A push sends two if Redis does not have its script.
func (w *world) timeOut(replicas int, ended <-chan struct{}) {
	w.Helper()
	drivertest.Eventually(w, func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		for client := range strings.Lines(w.do("CLIENT", "LIST").(string)) {
			if strings.Contains(client, " flags=b ") && strings.Contains(client, " cmd=wait ") && acknowledged(w, replicas) {
				id, _, _ := strings.Cut(strings.TrimPrefix(client, "id="), " ")
				w.do("CLIENT", "UNBLOCK", id)
			}
		}
		return false
	}, 30*time.Second, 10*time.Millisecond)
}

// slowReplicas is a client of a server whose replicas are away: WAIT takes its whole timeout.
type slowReplicas struct{ driver.Client }

func (s slowReplicas) Lane(int) (driver.Client, error) { return s, nil }
func (slowReplicas) Close() error                      { return nil }

func (slowReplicas) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	replies := make([]driver.Reply, len(calls))
	for i, call := range calls {
		replies[i].Value = int64(1)
		if call.Name() == "WAIT" {
			timeout, _ := strconv.Atoi(call.Args[len(call.Args)-1])
			time.Sleep(time.Duration(timeout) * time.Millisecond)
		}
	}
	if err := ctx.Err(); err != nil {
		return []driver.Reply{{Err: err}, {Err: err}}
	}
	return replies
}

// The caller's deadline is before the timeout: the push has an outcome all the same.
func TestADurablePushEndsBeforeItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDurable(slowReplicas{}, &link.Link{})
		hurried, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		reply, got := d.push(hurried, durability{replicas: 2, timeout: 20 * time.Second}, 0, false, []driver.Call{driver.Command("PING")})
		require.NoError(t, hurried.Err())
		require.Equal(t, driver.Reply{Value: int64(1)}, reply)
		require.ErrorIs(t, got.err, ErrReplicas)
		require.Equal(t, 1, got.replicas)
		require.NoError(t, d.lane.Close())
	})
}

// Without replicas each WAIT takes its whole timeout.
func TestDurablePushes(t *testing.T) {
	promises(t, Config{Replicas: 1, ReplicaTimeout: 50 * time.Millisecond}, map[string]func(w *world){
		"share a wait, and plain ones do not wait": func(w *world) {
			_, err := w.client.Push(w.Context(), RawJob{Class: "A"})
			require.ErrorIs(w, err, ErrReplicas)
			gate := faultproxy.NewGate()
			defer gate.Open()
			w.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: "WAIT", Nth: 1, Do: faultproxy.Hold(gate)})
			before := w.proxy.Count("WAIT")
			var pushes sync.WaitGroup
			push := func(n int) {
				pushes.Go(func() {
					j := RawJob{Class: "A", Queue: fmt.Sprint("q", n%3)}
					receipt, err := w.client.Push(w.Context(), j)
					assert.ErrorIs(w, err, ErrReplicas)
					assert.Equal(w, StatusQueued, receipt.Status)
				})
			}
			push(0)
			<-gate.Arrived()
			plain, err := New(w.client.Driver(), Config{Prefix: w.client.cfg.Prefix})
			require.NoError(w, err)
			_, err = plain.Push(w.Context(), RawJob{Class: "A", Queue: "plain"})
			require.NoError(w, err)
			for n := range 20 {
				push(n)
			}
			drivertest.Eventually(w, func() bool {
				w.client.spaces[0].durable.mu.Lock()
				defer w.client.spaces[0].durable.mu.Unlock()
				return len(w.client.spaces[0].durable.waiting) == 20
			}, 20*time.Second, time.Millisecond, "all to wait for their turn")
			over, cancel := context.WithTimeout(w.Context(), time.Millisecond)
			defer cancel()
			receipt, err := w.client.Push(over, RawJob{Class: "A", Queue: "late"})
			require.ErrorIs(w, err, context.DeadlineExceeded)
			require.Equal(w, StatusNotPushed, receipt.Status, "its turn has not come")
			gate.Open()
			pushes.Wait()
			require.Equal(w, 2, w.proxy.Count("WAIT")-before)
			require.Equal(w, 21, len(w.queue("q0"))+len(w.queue("q1"))+len(w.queue("q2")))
			require.Empty(w, w.queue("late"))
		},
		"have an outcome each": func(w *world) {
			w.do("SET", w.keys.Queue("odd"), "x")
			gate := faultproxy.NewGate()
			w.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: "WAIT", Nth: 1, Do: faultproxy.Hold(gate)})
			var pushes sync.WaitGroup
			for n := range 3 {
				pushes.Go(func() {
					if n > 0 {
						<-gate.Arrived()
					}
					receipt, err := w.client.Push(w.Context(), RawJob{Class: "A", Queue: []string{"a", "odd", "b"}[n]})
					if n == 1 {
						assert.ErrorContains(w, err, "WRONGTYPE")
						assert.NotErrorIs(w, err, ErrReplicas)
						assert.Equal(w, StatusNotPushed, receipt.Status)
						return
					}
					assert.ErrorIs(w, err, ErrReplicas)
					assert.Equal(w, StatusQueued, receipt.Status)
				})
			}
			<-gate.Arrived()
			drivertest.Eventually(w, func() bool {
				w.client.spaces[0].durable.mu.Lock()
				defer w.client.spaces[0].durable.mu.Unlock()
				return len(w.client.spaces[0].durable.waiting) == 2
			}, 20*time.Second, time.Millisecond, "both to wait for their turn")
			gate.Open()
			pushes.Wait()
		},
		"are stored if only the reply to the wait is lost": func(w *world) {
			w.proxy.Add(faultproxy.DropReply("WAIT"))
			receipt, err := w.client.Push(w.Context(), RawJob{Class: "A"})
			require.ErrorIs(w, err, ErrReplicas)
			require.NotErrorIs(w, err, ErrUnknown)
			require.Equal(w, Receipt{JID: receipt.JID, Queue: DefaultQueue, Status: StatusQueued, Replicas: ReplicasUnknown}, receipt)
			require.Len(w, w.queue(DefaultQueue), 1)
		},
		"end a bulk after the first slice, which is stored": func(w *world) {
			jobs := slices.Values(slices.Repeat([]RawJob{{Class: "A"}}, 600))
			var failed *BulkError
			receipts, err := w.client.PushMany(w.Context(), jobs)
			require.ErrorAs(w, err, &failed)
			require.ErrorIs(w, err, ErrReplicas)
			stored := failed.Queued
			require.Equal(w, slices.Concat(repeat(StatusQueued, stored), repeat(StatusNotPushed, failed.NotPushed)), statuses(receipts))
			require.Len(w, w.queue(DefaultQueue), stored)
			require.Equal(w, 1, w.proxy.Count("WAIT"))
			n, err := w.client.PushSeq(w.Context(), jobs, nil)
			require.ErrorIs(w, err, ErrReplicas)
			require.Len(w, w.queue(DefaultQueue), stored+n, "the rest can be pushed")
			require.Equal(w, 2, w.proxy.Count("WAIT"))
		},
		"of prepared jobs wait at each attempt": func(w *world) {
			p, receipt, err := w.client.Prepare(w.Context(), RawJob{Class: "A", Replicas: 3})
			require.NoError(w, err)
			require.Zero(w, receipt.Replicas)
			key := IdempotencyKey{Scope: "outbox", Number: 1, Mark: "m"}
			for range 2 {
				receipts, err := w.client.PushPrepared(w.Context(), key, []Prepared{p})
				require.ErrorContains(w, err, "0 of 1 within 50ms")
				require.Equal(w, StatusQueued, receipts[0].Status)
			}
			require.Len(w, w.queue(DefaultQueue), 1)
		},
		"that are repeated wait for replicas too": func(w *world) {
			w.client.cfg.RepeatFor = -1
			w.proxy.Add(faultproxy.DropReply("EVAL"))
			unknown, err := w.client.Push(w.Context(), RawJob{Class: "A", PushOnce: true})
			require.ErrorIs(w, err, ErrUnknown)
			stored, err := w.client.Repeat(w.Context(), unknown)
			require.ErrorIs(w, err, ErrReplicas)
			require.Equal(w, StatusQueued, stored.Status)
			require.Len(w, w.queue(DefaultQueue), 1)
		},
		"tell their middleware of no error": func(w *world) {
			var outcomes []error
			w.client.Use("watch", func(_ context.Context, j *RawJob) error {
				j.OnPushed(func(_ Receipt, err error) { outcomes = append(outcomes, err) })
				return nil
			})
			_, err := w.client.Push(w.Context(), RawJob{Class: "A"})
			require.ErrorIs(w, err, ErrReplicas)
			require.Equal(w, []error{nil}, outcomes)
		},
	})
}

// A server without replication, and a user that may not use WAIT.
func TestAPushWithoutWaitIsStored(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		t.Helper()
		client, err := New(open(t, "redis://"+drivertest.Miniredis(t).Addr()), Config{Replicas: 1})
		require.NoError(t, err)
		receipt, err := client.Push(t.Context(), RawJob{Class: "A"})
		require.ErrorIs(t, err, ErrReplicas)
		require.Equal(t, Receipt{JID: receipt.JID, Queue: DefaultQueue, Status: StatusQueued}, receipt)
		require.NoError(t, client.Close())
	})
	denied := durability{replicas: 1}.outcome(driver.Reply{Err: driver.NewServerError("NOPERM this user has no permissions to run the 'wait' command")})
	require.ErrorIs(t, denied.err, ErrReplicas)
	require.ErrorContains(t, denied.err, "permit it to the Redis user")
	require.Equal(t, ReplicasUnknown, denied.replicas)
	var refused *driver.ServerError
	require.NotErrorAs(t, denied.err, &refused, "the push was not refused")
}

func TestADurabilityIsChecked(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{Replicas: -1}, {ReplicaTimeout: time.Microsecond}, {ReplicaTimeout: 2 * time.Minute}} {
		_, err := New(&never{}, cfg)
		require.ErrorContains(t, err, "replica")
		require.ErrorContains(t, RawJob{Class: "A", Replicas: cfg.Replicas, ReplicaTimeout: cfg.ReplicaTimeout}.Check(), "replica")
	}
}

// never is a client that is not used.
type never struct{ driver.Client }
