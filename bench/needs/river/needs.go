// Package river is the side of River in the comparison of package needs.
package river

//revive:disable:exported The comments are those that the test reads.

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertest"
	"github.com/riverqueue/river/rivertype"
	"github.com/robfig/cron/v3"
)

// What every program has.
var (
	ctx     = context.Background()
	pool    *pgxpool.Pool
	client  *river.Client[pgx.Tx]
	workers = river.NewWorkers()
	errTry  = errors.New("try again")
	errNot  = errors.New("no such user")
)

type WelcomeArgs struct {
	UserID int64 `json:"user_id"`
}

func (WelcomeArgs) Kind() string { return "welcome" }

type WelcomeWorker struct {
	river.WorkerDefaults[WelcomeArgs]
}

func (WelcomeWorker) Work(context.Context, *river.Job[WelcomeArgs]) error { return nil }

func Register() { river.AddWorker(workers, WelcomeWorker{}) }

// need: options of one job

func Options() error {
	_, err := client.Insert(ctx, WelcomeArgs{42}, &river.InsertOpts{Queue: "vip", MaxAttempts: 4})
	return err
}

// need: a delay

func Delayed() error {
	_, err := client.Insert(ctx, WelcomeArgs{42}, &river.InsertOpts{ScheduledAt: time.Now().Add(10 * time.Minute)})
	return err
}

// need: many jobs at once

func Many(users []WelcomeArgs) error {
	var params []river.InsertManyParams
	for _, user := range users {
		params = append(params, river.InsertManyParams{Args: user})
	}
	_, err := client.InsertMany(ctx, params)
	return err
}

// need: a unique job

type ReindexArgs struct {
	Product int64 `json:"product"`
}

func (ReindexArgs) Kind() string { return "reindex" }
func (ReindexArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}
}

func Unique() error {
	_, err := client.Insert(ctx, ReindexArgs{42}, nil)
	return err
}

// need: one job for each key of its arguments

type ChargeArgs struct {
	Order  string `json:"order" river:"unique"`
	Amount int64  `json:"amount"`
}

func (ChargeArgs) Kind() string { return "charge" }
func (ChargeArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}
}

// need: a tenant that travels with the job

func Tenant() error {
	_, err := client.Insert(ctx, WelcomeArgs{42}, &river.InsertOpts{Metadata: []byte(`{"tenant":"acme"}`)})
	return err
}

func OfTenant(_ context.Context, job *river.Job[WelcomeArgs]) error {
	var meta struct {
		Tenant string `json:"tenant"`
	}
	if err := json.Unmarshal(job.Metadata, &meta); err != nil {
		return err
	}
	return InTenant(meta.Tenant)
}

func InTenant(string) error { return nil }

// need: keys of its own for each tenant

func Prefixed() (*river.Client[pgx.Tx], error) {
	return river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: "acme"})
}

// need: a delay of its own before a retry

type DownloadArgs struct {
	File string `json:"file"`
}

func (DownloadArgs) Kind() string { return "download" }

type DownloadWorker struct {
	river.WorkerDefaults[DownloadArgs]
}

func (DownloadWorker) NextRetry(job *river.Job[DownloadArgs]) time.Time {
	return time.Now().Add(time.Minute << job.Attempt)
}

func (DownloadWorker) Work(context.Context, *river.Job[DownloadArgs]) error { return errTry }

// need: an error that ends the job

type GiveUp struct{ river.MiddlewareDefaults }

func (GiveUp) Work(ctx context.Context, _ *rivertype.JobRow, doInner func(context.Context) error) error {
	err := doInner(ctx)
	if errors.Is(err, errNot) {
		return river.JobCancel(err)
	}
	return err
}

// need: an error tracker

type Tracker struct{ report func(class string, err error) }

func (t Tracker) HandleError(_ context.Context, job *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	t.report(job.Kind, err)
	return nil
}

func (t Tracker) HandlePanic(_ context.Context, job *rivertype.JobRow, _ any, trace string) *river.ErrorHandlerResult {
	t.report(job.Kind, errors.New(trace))
	return nil
}

// need: a timeout

func (WelcomeWorker) Timeout(*river.Job[WelcomeArgs]) time.Duration { return time.Minute }

// need: middleware around each run

type Traced struct {
	river.MiddlewareDefaults
	begin func(class string) (end func())
}

func (t Traced) Work(ctx context.Context, job *rivertype.JobRow, doInner func(context.Context) error) error {
	defer t.begin(job.Kind)()
	return doInner(ctx)
}

// need: middleware of the producer

type Stamped struct {
	river.MiddlewareDefaults
	request string
}

func (s Stamped) InsertMany(
	ctx context.Context, jobs []*rivertype.JobInsertParams, doInner func(context.Context) ([]*rivertype.JobInsertResult, error),
) ([]*rivertype.JobInsertResult, error) {
	for _, job := range jobs {
		meta := map[string]any{}
		if err := json.Unmarshal(job.Metadata, &meta); err != nil {
			return nil, err
		}
		meta["request_id"] = s.request
		metadata, err := json.Marshal(meta)
		if err != nil {
			return nil, err
		}
		job.Metadata = metadata
	}
	return doInner(ctx)
}

// need: a stop that waits for running jobs

func Stopping(ctx context.Context) error {
	config := &river.Config{Workers: workers, Queues: map[string]river.QueueConfig{"default": {MaxWorkers: 25}}}
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return client.Stop(within)
}

// need: a long job that goes on where it was

func Rows(ctx context.Context) error {
	river.ResumableStepCursor(ctx, "rows", nil, func(ctx context.Context, row int) error {
		for ; row < 1000; row++ {
			if err := errors.Join(Load(row), river.ResumableSetCursor(ctx, row+1)); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

func Load(int) error { return nil }

// need: the result of a job

func Report(ctx context.Context) error { return river.RecordOutput(ctx, 7) }

func Result(id int64) (rows int, err error) {
	for {
		job, err := client.JobGet(ctx, id)
		if err != nil {
			return 0, err
		}
		if job.State == rivertype.JobStateCompleted {
			return rows, json.Unmarshal(job.Output(), &rows)
		}
		time.Sleep(time.Second)
	}
}

// need: a periodic job in a time zone

func Nightly() error {
	schedule, err := cron.ParseStandard("CRON_TZ=Europe/Berlin 0 1 * * *")
	if err != nil {
		return err
	}
	construct := func() (river.JobArgs, *river.InsertOpts) { return WelcomeArgs{42}, nil }
	client.PeriodicJobs().Add(river.NewPeriodicJob(schedule, construct, nil))
	return nil
}

// need: what waits in a queue

func Waiting(show func(class string)) error {
	params := river.NewJobListParams().Queues("default").States(rivertype.JobStateAvailable)
	for {
		page, err := client.JobList(ctx, params)
		if err != nil || len(page.Jobs) == 0 {
			return err
		}
		for _, job := range page.Jobs {
			show(job.Kind)
		}
		params = params.After(page.LastCursor)
	}
}

// need: pause a queue

func Pause() error { return client.QueuePause(ctx, "mail", nil) }

// need: cancel a job

func Cancel(id int64) error {
	_, err := client.JobCancel(ctx, id)
	return err
}

// need: a test of what a program enqueues

func HasEnqueued(ctx context.Context, t *testing.T) {
	rivertest.RequireInserted(ctx, t, riverpgxv5.New(pool), WelcomeArgs{42}, &rivertest.RequireInsertedOpts{Queue: "mail"})
}

// need: a service that answers 429

type CallArgs struct {
	URL string `json:"url"`
}

func (CallArgs) Kind() string { return "call" }

type CallWorker struct {
	river.WorkerDefaults[CallArgs]
}

func (CallWorker) Work(_ context.Context, job *river.Job[CallArgs]) error {
	response, err := http.Get(job.Args.URL)
	if err == nil && response.StatusCode == http.StatusTooManyRequests {
		return river.JobSnooze(30 * time.Second)
	}
	return err
}
