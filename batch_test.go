package belay_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/lua"
)

// importRow is the argument of a member: how it ends, and how many rows it adds.
type importRow struct {
	How  string
	More int
}

// A calls notes the callbacks that run.
type calls struct {
	mu   sync.Mutex
	each []string
	came chan string
}

func (c *calls) note(name string) {
	c.mu.Lock()
	c.each = append(c.each, name)
	c.mu.Unlock()
	c.came <- name
}

func (c *calls) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.each)
}

// batches is a client, a class of members and one of callbacks, and a server that runs both.
type batches struct {
	*calls
	client *belay.Client
	row    *belay.Definition[importRow]
	call   *belay.Definition[string]
	server *belay.Server
}

func newBatches(t *testing.T, client *belay.Client) *batches {
	t.Helper()
	b := &batches{
		calls: &calls{came: make(chan string, 100)}, client: client, server: newServer(t, client, belay.ServerConfig{}),
		row: belay.Define[importRow]("Row", belay.Retries(0)), call: belay.Define[string]("Call"),
	}
	b.row.Handle(b.server, func(ctx context.Context, row importRow) error {
		for range row.More {
			of, ok := belay.BatchOf(ctx)
			if !ok {
				return errors.New("it is in no batch")
			}
			if _, err := b.row.Enqueue(ctx, client, importRow{}, belay.InBatch(of)); err != nil {
				return err
			}
		}
		switch row.How {
		case "fails":
			return errors.New("no such row")
		case "is discarded":
			return belay.Discard(nil)
		}
		return nil
	})
	b.call.Handle(b.server, func(ctx context.Context, name string) error {
		of, ok := belay.BatchOf(ctx)
		if !ok {
			return errors.New("it is no callback")
		}
		if _, err := of.Status(ctx); err != nil {
			return err
		}
		b.note(name)
		return nil
	})
	return b
}

// config has all callbacks.
func (b *batches) config() belay.BatchConfig {
	return belay.BatchConfig{
		Description: "import 42", OnComplete: b.call.Job("complete"), OnSuccess: b.call.Job("success"), OnDeath: b.call.Job("death"),
	}
}

// fill pushes rows that end like this.
func (b *batches) fill(ctx context.Context, rows ...importRow) func(*belay.Batch) error {
	return func(of *belay.Batch) error {
		_, err := b.row.EnqueueMany(ctx, b.client, slices.Values(rows), belay.InBatch(of))
		return err
	}
}

func TestBatchCallsBackWhenItsMembersHaveEnded(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		b := newBatches(t, client)
		batch, err := belay.NewBatch(ctx, client, b.config(), b.fill(ctx, importRow{}, importRow{More: 2}, importRow{How: "is discarded"}))
		require.NoError(t, err)
		status, err := batch.Status(ctx)
		require.NoError(t, err)
		require.Equal(t, [2]any{3, lua.BatchStateRunning}, [2]any{status.Pending, status.State})
		running(t, b.server)
		status, err = batch.Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, 5, status.Total, "a member has pushed two more")
		require.Equal(t, [4]int{}, [4]int{status.Pending, status.Failed, status.Dead, status.Removed})
		require.Equal(t, lua.BatchStateOver, status.State)
		require.Equal(t, "import 42", status.Description)
		require.ElementsMatch(t, []string{"complete", "success"}, []string{awaitValue(t, "a callback", b.came), awaitValue(t, "the other one", b.came)})
		_, err = b.row.Enqueue(ctx, client, importRow{}, belay.InBatch(batch))
		require.ErrorIs(t, err, belay.ErrBatchOver)
		_, err = belay.NewBatch(ctx, client, belay.BatchConfig{ID: batch.ID()}, b.fill(ctx))
		require.ErrorIs(t, err, belay.ErrBatchOver)
	})
}

func TestBatchWithADeadMemberIsNotOver(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		b := newBatches(t, client)
		running(t, b.server)
		batch, err := belay.NewBatch(ctx, client, b.config(), b.fill(ctx, importRow{}, importRow{How: "fails"}))
		require.NoError(t, err)
		status, err := batch.Wait(ctx)
		require.ErrorIs(t, err, belay.ErrBatchDead)
		require.Equal(t, [3]int{1, 1, 1}, [3]int{status.Pending, status.Failed, status.Dead})
		require.ElementsMatch(t, []string{"complete", "death"}, []string{awaitValue(t, "a callback", b.came), awaitValue(t, "the other one", b.came)})
	})
}

// A due member that no worker can read dies in its batch, not only in the dead set.
func TestAMemberThatNoWorkerCanReadDiesInItsBatch(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		b := newBatches(t, client)
		batch, err := belay.NewBatch(ctx, client, b.config(), func(of *belay.Batch) error {
			_, err := b.row.Enqueue(ctx, client, importRow{}, belay.InBatch(of), belay.In(time.Hour))
			return err
		})
		require.NoError(t, err)
		do := func(words ...string) any {
			reply := client.Driver().Do(ctx, driver.Command(words...))[0]
			require.NoError(t, reply.Err)
			return reply.Value
		}
		schedule := client.Spaces()[0].Keys.Schedule()
		payload, _ := do("ZRANGE", schedule, "0", "0").([]any)[0].(string)
		do("DEL", schedule)
		do("ZADD", schedule, "1", strings.Replace(payload, `{`, `{"retry_count":"1",`, 1))
		running(t, b.server)
		status, err := batch.Wait(ctx)
		require.ErrorIs(t, err, belay.ErrBatchDead)
		require.Equal(t, [2]int{1, 1}, [2]int{status.Pending, status.Dead})
	})
}

func TestNestedBatchesEndFromTheInside(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		b := newBatches(t, client)
		outer := b.config()
		outer.OnComplete, outer.OnDeath = belay.RawJob{}, belay.RawJob{}
		var inner *belay.Batch
		batch, err := belay.NewBatch(ctx, client, outer, func(of *belay.Batch) (err error) {
			inner, err = belay.NewBatch(ctx, client, belay.BatchConfig{Parent: of, OnSuccess: b.call.Job("inner")}, b.fill(ctx, importRow{}, importRow{}))
			return err
		})
		require.NoError(t, err)
		running(t, b.server)
		status, err := batch.Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, status.Total, "the end jobs of the inner one")
		require.Equal(t, "inner", awaitValue(t, "the inner callback", b.came))
		require.Equal(t, "success", awaitValue(t, "the outer callback", b.came))
		_, err = inner.Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"inner", "success"}, b.all(), "each was called once")
	})
}

func TestDeathInANestedBatchIsOneInEachBatchAroundIt(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		b := newBatches(t, client)
		running(t, b.server)
		outer, err := belay.NewBatch(ctx, client, belay.BatchConfig{OnDeath: b.call.Job("death")}, func(of *belay.Batch) error {
			_, err := belay.NewBatch(ctx, client, belay.BatchConfig{Parent: of}, func(of *belay.Batch) error {
				_, err := belay.NewBatch(ctx, client, belay.BatchConfig{Parent: of}, b.fill(ctx, importRow{}, importRow{How: "fails"}))
				return err
			})
			return err
		})
		require.NoError(t, err)
		status, err := outer.Wait(ctx)
		require.ErrorIs(t, err, belay.ErrBatchDead)
		require.Equal(t, [3]any{1, 1, lua.BatchStateDead}, [3]any{status.Pending, status.Dead, status.State})
		require.Equal(t, "death", awaitValue(t, "the outer callback", b.came))
		require.Equal(t, []string{"death"}, b.all())
	})
}

// The end jobs of a nested batch without callbacks run where those of its parent do, and not in the default queue,
// which no worker may take.
func TestNestedBatchWithoutCallbacksEndsInTheQueueOfItsParent(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		server := newServer(t, client, belay.ServerConfig{Queues: belay.Queues("imports")})
		row, done := belay.Define[int]("Row", belay.Queue("imports")), belay.Define[int]("Done", belay.Queue("imports"))
		row.Handle(server, func(context.Context, int) error { return nil })
		done.Handle(server, func(context.Context, int) error { return nil })
		running(t, server)
		batch, err := belay.NewBatch(ctx, client, belay.BatchConfig{OnSuccess: done.Job(1)}, func(of *belay.Batch) error {
			_, err := belay.NewBatch(ctx, client, belay.BatchConfig{Parent: of}, func(inner *belay.Batch) error {
				_, err := row.Enqueue(ctx, client, 1, belay.InBatch(inner))
				return err
			})
			return err
		})
		require.NoError(t, err)
		_, err = batch.Wait(ctx)
		require.NoError(t, err)
	})
}

func TestMembersOfAnInvalidBatchAreDropped(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		b := newBatches(t, client)
		batch, err := belay.NewBatch(ctx, client, b.config(), b.fill(ctx, importRow{}, importRow{How: "fails"}))
		require.NoError(t, err)
		require.NoError(t, batch.Invalidate(ctx))
		running(t, b.server)
		status, err := batch.Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, status.Removed)
		require.False(t, status.InvalidAt.IsZero())
	})
}

func TestARunningMemberLearnsThatItsBatchIsInvalid(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		server := newServer(t, client, belay.ServerConfig{Heartbeat: 100 * time.Millisecond, TTL: 10 * time.Second})
		long := belay.Define[int]("Long")
		runs := make(chan bool, 1)
		long.Handle(server, func(ctx context.Context, _ int) error {
			runs <- belay.BatchInvalid(ctx)
			for !belay.BatchInvalid(ctx) {
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(tick):
				}
			}
			return nil
		})
		running(t, server)
		batch, err := belay.NewBatch(ctx, client, belay.BatchConfig{}, func(of *belay.Batch) error {
			_, err := long.Enqueue(ctx, client, 1, belay.InBatch(of))
			return err
		})
		require.NoError(t, err)
		require.False(t, awaitValue(t, "the run", runs))
		require.NoError(t, batch.Invalidate(ctx))
		status, err := batch.Wait(ctx)
		require.NoError(t, err)
		require.Zero(t, status.Removed, "it was not cancelled: it is done")
	})
}

func TestBatchCanBeFilledAgainAfterACrash(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		b := newBatches(t, client)
		cfg := b.config()
		cfg.ID = "import-42"
		crash := errors.New("the program died")
		pushes := func(jids ...string) func(*belay.Batch) error {
			return func(of *belay.Batch) error {
				for _, jid := range jids {
					if _, err := b.row.Enqueue(ctx, client, importRow{}, belay.InBatch(of), belay.JID(jid)); err != nil {
						return err
					}
				}
				if len(jids) == 1 {
					return crash
				}
				return nil
			}
		}
		_, err := belay.NewBatch(ctx, client, cfg, pushes("r1"))
		require.ErrorIs(t, err, crash)
		batch, err := belay.NewBatch(ctx, client, cfg, pushes("r1", "r2"))
		require.NoError(t, err)
		status, err := batch.Status(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, status.Total)
		opened, err := client.OpenBatch(ctx, "import-42")
		require.NoError(t, err)
		require.Equal(t, batch.ID(), opened.ID())
	})
}

func TestBatchesAreRefusedWhileAnOldWorkerLives(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		keys := lua.NewKeys(client.Config().Prefix)
		_, err := keys.Register("old:1:aa", lua.Record{Queues: []string{"default"}, TTL: time.Minute}).Do(t.Context(), client.Driver())
		require.NoError(t, err)
		client.Driver().Do(t.Context(), driver.Command("HSET", keys.Record("old:1:aa"), "protocol", "2"))
		b := newBatches(t, client)
		_, err = belay.NewBatch(t.Context(), client, b.config(), b.fill(t.Context()))
		require.ErrorIs(t, err, belay.ErrOldWorker)
	})
}

func TestMistakesInABatch(t *testing.T) {
	t.Parallel()
	client, err := belay.Open(t.Context(), drivertest.Redis(t).URL(), &belay.ClientConfig{Prefix: strings.TrimSuffix(drivertest.Prefix(t), ":")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	call := belay.Define[string]("Call", belay.Queue("calls"))
	other := belay.Define[string]("Other")
	for want, cfg := range map[string]belay.BatchConfig{
		"use letters":               {ID: "a b"},
		"set BatchConfig.Queue":     {OnComplete: call.Job("a"), OnDeath: other.Job("b")},
		"OnSuccess: a callback":     {OnSuccess: call.Job("a", belay.In(time.Hour))},
		"Unique (use NotUnique)":    {OnSuccess: call.Job("a", belay.Unique(belay.UntilExecuted))},
		"its description is 20000":  {Description: string(make([]byte, 20000))},
		"a callback may have 16384": {OnDeath: call.Job(string(make([]byte, 20000)))},
	} {
		_, err := belay.NewBatch(t.Context(), client, cfg, func(*belay.Batch) error { return nil })
		require.ErrorContains(t, err, want)
	}
	_, err = call.Enqueue(t.Context(), client, "a", belay.InBatch(nil))
	require.ErrorContains(t, err, "the batch is nil")
}
