// Command river is the subject that measures River, a job system on PostgreSQL written in Go.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/subject"
)

// system is River.
var system = measure.System{Name: "River", Module: "github.com/riverqueue/river", Open: open}

func main() { measure.Main(system) }

// A peer is River, connected to a database that holds River's tables.
type peer struct {
	settings settings
	pool     *pgxpool.Pool
	client   *river.Client[pgx.Tx]
	worker   *worker
	running  bool // the client has been started
	// acknowledged has an event for every run, once its completion has been committed. It is nil unless runs
	// are counted: a channel without a reader fills up, and River continues without it.
	acknowledged <-chan *river.Event
}

func open(ctx context.Context, task subject.Task) (measure.Peer, error) {
	p := &peer{settings: choose(task), worker: &worker{}}
	config, err := pgxpool.ParseConfig(task.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	if p.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	if p.client, err = river.NewClient(riverpgxv5.New(p.pool), p.settings.config(p.worker)); err != nil {
		return nil, err
	}
	if task.Measure == "drain" {
		// A full channel drops events, and WaitAcknowledged would wait for them in vain.
		p.acknowledged, _ = p.client.SubscribeConfig(&river.SubscribeConfig{
			ChanSize: task.Jobs + 1,
			Kinds:    []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled},
		})
	}
	return p, nil
}

// prepare makes River's tables. Where a task has left them, it empties them, as River's own benchmark does.
func (p *peer) prepare(ctx context.Context) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(p.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("make River's tables: %w", err)
	}
	return p.clear(ctx)
}

func (p *peer) clear(ctx context.Context) error {
	if _, err := p.pool.Exec(ctx, "TRUNCATE river_job"); err != nil {
		return err
	}
	_, err := p.pool.Exec(ctx, "VACUUM FULL river_job")
	return err
}

// Enqueue inserts one job in a transaction of its own.
func (p *peer) Enqueue(ctx context.Context, job measure.Job) error {
	args, options := insertion(job)
	_, err := p.client.Insert(ctx, args, options)
	return err
}

// EnqueueAll inserts batches with COPY.
func (p *peer) EnqueueAll(ctx context.Context, count int, job func(n int) measure.Job) error {
	batches := (count + batch - 1) / batch
	return measure.Share(batches, inserters, func(b int) error {
		params := make([]river.InsertManyParams, 0, batch)
		for n := b * batch; n < min((b+1)*batch, count); n++ {
			args, options := insertion(job(n))
			params = append(params, river.InsertManyParams{Args: args, InsertOpts: options})
		}
		_, err := p.client.InsertManyFast(ctx, params)
		return err
	})
}

// Rest does what PostgreSQL's autovacuum would within a minute: without statistics of the new rows, and with
// their visibility yet to be written, the first jobs would pay for the load.
func (p *peer) Rest(ctx context.Context) error {
	_, err := p.pool.Exec(ctx, "VACUUM ANALYZE river_job")
	return err
}

// Start starts the client's worker. There is one queue: River takes no part in the measures that name another.
func (p *peer) Start(ctx context.Context, _ string, handle measure.Handler) error {
	p.worker.handle = handle
	p.running = true
	return p.client.Start(ctx)
}

// WaitAcknowledged counts events: River sends them when a batch of completions has been committed.
func (p *peer) WaitAcknowledged(ctx context.Context, runs int) error {
	for range runs {
		select {
		case event := <-p.acknowledged:
			if event.Kind != river.EventKindJobCompleted {
				return fmt.Errorf("job %d: %s", event.Job.ID, event.Kind)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Settings are those in use.
func (p *peer) Settings() string { return p.settings.String() }

// Close stops the worker and empties the table.
func (p *peer) Close(ctx context.Context) error {
	var err error
	if p.running {
		err = p.client.Stop(ctx)
	}
	err = errors.Join(err, p.clear(ctx))
	p.pool.Close()
	return err
}
