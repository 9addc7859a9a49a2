// Package belay is the side of Belay in the comparison of package needs.
package belay

//revive:disable:exported The comments are those that the test reads.

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"testing"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/metrics"
	"github.com/belayq/belay/web"
)

// What every program has.
var (
	ctx    = context.Background()
	client *belay.Client
	server *belay.Server
	errTry = errors.New("try again")
	errNot = errors.New("no such user")
)

type WelcomeArgs struct{ UserID int64 }

var Welcome = belay.Define[WelcomeArgs]("Welcome", belay.Idempotent())

func HandleWelcome(context.Context, WelcomeArgs) error { return nil }
func Register(server *belay.Server)                    { Welcome.Handle(server, HandleWelcome) }

// need: options of one job

func Options() error {
	_, err := Welcome.Enqueue(ctx, client, WelcomeArgs{42}, belay.Queue("vip"), belay.Retries(3))
	return err
}

// need: a delay

func Delayed() error {
	_, err := Welcome.Enqueue(ctx, client, WelcomeArgs{42}, belay.In(10*time.Minute))
	return err
}

// need: many jobs at once

func Many(users iter.Seq[WelcomeArgs]) error {
	_, err := Welcome.EnqueueMany(ctx, client, users)
	return err
}

// need: a unique job

var Reindex = belay.Define[int64]("Reindex", belay.Idempotent(), belay.Unique(belay.UntilExecuted))

func Unique() error {
	_, err := Reindex.Enqueue(ctx, client, 42)
	return err
}

// need: one job for each key of its arguments

type ChargeArgs struct {
	Order  string
	Amount int64
}

var Charge = belay.Define[ChargeArgs]("Charge", belay.Idempotent(), belay.Unique(belay.UntilExecuted),
	belay.UniqueBy(func(args ChargeArgs) any { return args.Order }))

// need: create once by my key

func Once() error {
	_, err := Welcome.Enqueue(ctx, client, WelcomeArgs{42}, belay.Key("stripe:evt_1", 24*time.Hour))
	return err
}

// need: a tenant that travels with the job

func Tenant() error {
	_, err := Welcome.Enqueue(ctx, client, WelcomeArgs{42}, belay.Meta("tenant", "acme"))
	return err
}

func OfTenant(ctx context.Context, _ WelcomeArgs) error {
	run, _ := belay.Info(ctx)
	return InTenant(run.Meta["tenant"])
}

func InTenant(string) error { return nil }

// need: keys of its own for each tenant

func Prefixed() (*belay.Client, error) {
	return belay.Open(ctx, "redis://localhost:6379/0", &belay.ClientConfig{Prefix: "acme"})
}

// need: a delay of its own before a retry

var Download = belay.Define[string]("Download", belay.Idempotent(), belay.Retries(3),
	belay.Backoff(func(count int, _ error, _ *belay.Job) time.Duration { return time.Minute << count }))

// need: the handler chooses the delay

func Limited(context.Context, string) error { return belay.RetryIn(30*time.Second, errTry) }

// need: an error that ends the job

var Mail = belay.Define[string]("Mail", belay.Idempotent(), belay.KillOn(errNot))

// need: an error tracker

func Tracker(report func(class string, err error)) {
	server.OnError(func(_ context.Context, job *belay.Job, err error) { report(job.Class(), err) })
}

// need: a timeout

var Slow = belay.Define[string]("Slow", belay.Idempotent(), belay.Timeout(time.Minute))

// need: middleware around each run

func Traced(begin func(class string) (end func())) {
	server.Use("trace", func(next belay.Handler) belay.Handler {
		return func(ctx context.Context, job *belay.Job) error {
			defer begin(job.Class())()
			return next(ctx, job)
		}
	})
}

// need: middleware of the producer

func Stamped(request string) {
	client.Use("request id", func(_ context.Context, job *belay.RawJob) error {
		belay.Meta("request_id", request)(job)
		return nil
	})
}

// need: queues by priority

func Prioritized() (*belay.Server, error) {
	return belay.NewServer(client, belay.ServerConfig{Queues: belay.Queues("critical", "default")})
}

// need: a stop that waits for running jobs

func Stopping(ctx context.Context) error {
	server, err := belay.NewServer(client, belay.ServerConfig{ShutdownTimeout: 30 * time.Second})
	if err != nil {
		return err
	}
	Register(server)
	return server.Run(ctx)
}

// need: a long job that goes on where it was

func Rows(ctx context.Context, _ string) error {
	row, _, err := belay.Resume[int](ctx)
	for ; row < 1000 && err == nil; row++ {
		err = errors.Join(Load(row), belay.Checkpoint(ctx, row+1))
	}
	return err
}

func Load(int) error { return nil }

// need: the result of a job

var Report = belay.DefineResult[string, int]("Report", belay.Idempotent(), belay.Track(time.Hour))

func HandleReport(context.Context, string) (int, error) { return 7, nil }

func Result(jid string) (int, error) { return Report.Wait(ctx, client, jid) }

// need: a periodic job in a time zone

func Nightly() error {
	return server.Schedule(belay.Periodic{Name: "nightly", Cron: "0 1 * * *", Zone: "Europe/Berlin", Job: Welcome.Job(WelcomeArgs{42})})
}

// need: what waits in a queue

func Waiting(show func(class string)) error {
	for found, err := range inspect.New(client).Jobs(ctx, inspect.Query{Places: []inspect.Place{inspect.PlaceQueue}}) {
		if err != nil {
			return err
		}
		show(found.Entry.Class)
	}
	return nil
}

// need: pause a queue

func Pause() (changed bool, err error) { return inspect.New(client).Pause(ctx, "mail") }

// need: cancel a job

func Cancel(jid string) ([]inspect.Cancellation, error) { return inspect.New(client).Cancel(ctx, jid) }

// need: a test of what a program enqueues

func HasEnqueued(t *testing.T, kit *belaytest.Kit) {
	belaytest.RequireEnqueued(t, kit, Welcome, WelcomeArgs{42}, belay.Queue("mail"))
}

// need: metrics

func Measured(mux *http.ServeMux) {
	mux.Handle("/metrics", metrics.Handler(metrics.New(metrics.Config{Server: server})))
}

// need: the dashboard in a mux of your own

func Dashboard(mux *http.ServeMux) error {
	page, err := web.New(client, web.Config{})
	mux.Handle("/jobs/", http.StripPrefix("/jobs", page))
	return err
}

// need: a limit for each tenant

type WebhookArgs struct{ Tenant, URL string }

var Webhook = belay.Define[WebhookArgs]("Webhook", belay.Idempotent(),
	belay.Limited(belay.Limit{Name: "webhooks", Concurrency: 5}, func(args WebhookArgs) string { return args.Tenant }))

// need: one limit for several classes

var (
	Printer = belay.LimitedTo(belay.Limit{Name: "printer", Concurrency: 1})
	Invoice = belay.Define[string]("Invoice", belay.Idempotent(), Printer)
	Label   = belay.Define[string]("Label", belay.Idempotent(), Printer)
)

// need: a rate

var Lookup = belay.Define[string]("Lookup", belay.Idempotent(),
	belay.LimitedTo(belay.Limit{Name: "geocoder", Rate: belay.Window(100, time.Minute)}))

// need: a service that answers 429

func Call(_ context.Context, url string) error {
	response, err := http.Get(url)
	if err == nil && response.StatusCode == http.StatusTooManyRequests {
		return belay.RateLimited(30 * time.Second)
	}
	return err
}

// need: a callback when many jobs are done

func Batch(users iter.Seq[WelcomeArgs]) error {
	_, err := belay.NewBatch(ctx, client, belay.BatchConfig{OnSuccess: Reindex.Job(42)}, func(b *belay.Batch) error {
		_, err := Welcome.EnqueueMany(ctx, client, users, belay.InBatch(b))
		return err
	})
	return err
}

// need: jobs one after the other

func Sequence() error {
	_, err := client.Push(ctx, belay.Sequence(Download.Job("day.csv"), Report.Job("day"), Mail.Job("day")))
	return err
}

// need: the result of the job before

func HandleMail(ctx context.Context, _ string) error {
	rows, err := belay.Previous[int](ctx)
	return errors.Join(err, Load(rows))
}
