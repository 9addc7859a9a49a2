package needs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
)

var errBusy = errors.New("the server is busy")

// Download waits a minute after its first failure, then two, then four, and up to ten seconds of jitter for
// each failure.
var Download = belay.Define[string]("Download", belay.Idempotent(), belay.Retries(3),
	belay.Backoff(func(count int, _ error, _ *belay.Job) time.Duration { return time.Minute << count }))

func Example_ownBackoff() {
	kit := newKit()
	kit.OnFailure(func(run belaytest.Run) { fmt.Println(run) })
	kit.Serve(func(server *belay.Server) {
		Download.Handle(server, func(ctx context.Context, _ string) error {
			if run, _ := belay.Info(ctx); run.Attempt == 1 {
				return errBusy
			}
			return nil
		})
	})
	must(Download.Enqueue(ctx, kit.Client(), "a.pdf"))
	kit.Drain()
	fmt.Println(kit.Advance(59 * time.Second))
	fmt.Println(kit.Advance(12 * time.Second))
	// Output:
	// Download ["a.pdf"], attempt 1: the server is busy
	// []
	// [Download ["a.pdf"], attempt 2]
}

// A handler may choose the delay itself, such as that of a Retry-After header. Snooze is the same without a
// failure.
func Example_retryAfter() {
	kit := newKit()
	kit.OnFailure(func(belaytest.Run) {})
	kit.Serve(func(server *belay.Server) {
		Download.Handle(server, func(context.Context, string) error { return belay.RetryIn(30*time.Second, errBusy) })
	})
	must(Download.Enqueue(ctx, kit.Client(), "a.pdf"))
	fmt.Println(len(kit.Drain()), len(kit.Advance(29*time.Second)), len(kit.Advance(time.Second)))
	// Output: 1 0 1
}

// NoSuchUser is an error at which another run is useless.
type NoSuchUser struct{ ID int64 }

func (e NoSuchUser) Error() string { return fmt.Sprint("there is no user ", e.ID) }

// giveUp is middleware for all classes: a job whose error is a NoSuchUser is moved to the dead set at once.
// belay.Discard instead of Kill leaves no trace.
func giveUp(next belay.Handler) belay.Handler {
	return func(ctx context.Context, j *belay.Job) error {
		err := next(ctx, j)
		if _, is := errors.AsType[NoSuchUser](err); is {
			return belay.Kill(err)
		}
		return err
	}
}

func Example_giveUpOnAnErrorType() {
	kit := newKit()
	kit.OnFailure(func(run belaytest.Run) { fmt.Println(run) })
	kit.Serve(func(server *belay.Server) {
		server.Use("give up", giveUp)
		Welcome.Handle(server, func(_ context.Context, args WelcomeArgs) error { return NoSuchUser{args.UserID} })
	})
	must(Welcome.Enqueue(ctx, kit.Client(), WelcomeArgs{42}))
	kit.DrainAll()
	fmt.Println("dead:", kit.Dead()[0].Class())
	// Output:
	// Welcome [42], attempt 1: there is no user 42
	// dead: Welcome
}

// Every error of a run reaches OnError with its type, for an error tracker. Arguments that do not fit the
// definition are an error of the run, too.
func Example_typedErrors() {
	kit := newKit()
	kit.OnFailure(func(belaytest.Run) {})
	kit.Serve(func(server *belay.Server) {
		register(server)
		server.OnError(func(_ context.Context, j *belay.Job, err error) {
			if mismatch, is := errors.AsType[*belay.ArgumentError](err); is {
				fmt.Println(j.Class(), mismatch)
			}
		})
	})
	must(kit.Client().Push(ctx, belay.RawJob{Class: "Welcome", Args: []any{"forty-two"}}))
	kit.Drain()
	// Output: Welcome argument 1 (UserID): a string, where int64 is wanted
}

// Slow has a millisecond; its handler passes ctx to all calls that may take long.
var Slow = belay.Define[struct{}]("Slow", belay.Idempotent(), belay.Timeout(time.Millisecond))

func Example_timeout() {
	kit := newKit()
	kit.OnFailure(func(run belaytest.Run) { fmt.Println(errors.Is(run.Err, belay.ErrTimeout)) })
	kit.Serve(func(server *belay.Server) {
		Slow.Handle(server, func(ctx context.Context, _ struct{}) error {
			<-ctx.Done() // as a query or a request would
			return context.Cause(ctx)
		})
	})
	must(Slow.Enqueue(ctx, kit.Client(), struct{}{}))
	kit.Drain()
	// Output: true
}

// Middleware of the client sees each push, and middleware of the server wraps each run.
func Example_middleware() {
	kit := newKit()
	kit.Client().Use("request id", func(_ context.Context, job *belay.RawJob) error {
		belay.Meta("request_id", "r-1")(job)
		return nil
	})
	kit.Serve(func(server *belay.Server) {
		register(server)
		server.Use("trace", func(next belay.Handler) belay.Handler {
			return func(ctx context.Context, j *belay.Job) error {
				fmt.Println("begin", j.Class(), j.Meta()["request_id"])
				defer fmt.Println("end")
				return next(ctx, j)
			}
		})
	})
	must(Welcome.Enqueue(ctx, kit.Client(), WelcomeArgs{42}))
	kit.Drain()
	// Output:
	// begin Welcome r-1
	// welcome, user 42
	// end
}

// A job of a later queue is taken only while the earlier ones are empty. With weights,
// []belay.QueueWeight{{Name: "critical", Weight: 6}, {Name: "default", Weight: 1}}, no queue starves.
func Example_priorityQueues() {
	kit := newKit()
	server := must(belay.NewServer(kit.Client(), belay.ServerConfig{Queues: belay.Queues("critical", "default"), Concurrency: 1, Logger: silent}))
	Welcome.Handle(server, func(ctx context.Context, args WelcomeArgs) error {
		if args.UserID == 1 {
			server.Stop() // it was the last
		}
		return welcome(ctx, args)
	})
	must(Welcome.Enqueue(ctx, kit.Client(), WelcomeArgs{1}, belay.Queue("default")))
	must(Welcome.Enqueue(ctx, kit.Client(), WelcomeArgs{2}, belay.Queue("critical")))
	fmt.Println(server.Run(ctx))
	// Output:
	// welcome, user 2
	// welcome, user 1
	// <nil>
}

var silent = slog.New(slog.DiscardHandler)

// At a stop a running job has ServerConfig.ShutdownTimeout to finish. A long one may watch Stopping, and return
// belay.Interrupted to go on elsewhere.
func Example_gracefulStop() {
	kit := newKit()
	server := must(belay.NewServer(kit.Client(), belay.ServerConfig{Queues: belay.Queues("mail"), Logger: silent}))
	Welcome.Handle(server, func(ctx context.Context, args WelcomeArgs) error {
		server.Stop() // main passes a context that signal.NotifyContext ends, or calls RunProcess
		<-belay.Stopping(ctx)
		fmt.Println("stopping:", ctx.Err())
		return welcome(ctx, args)
	})
	must(Welcome.Enqueue(ctx, kit.Client(), WelcomeArgs{42}))
	fmt.Println(server.Run(ctx), len(kit.Waiting()))
	// Output:
	// stopping: <nil>
	// welcome, user 42
	// <nil> 0
}

var Import = belay.Define[string]("Import", belay.Idempotent())

// A job of hours goes on where its last run ended, after a failure, a deployment or a crash.
func Example_checkpoint() {
	kit := newKit()
	kit.OnFailure(func(run belaytest.Run) { fmt.Println(run.Err) })
	kit.Serve(func(server *belay.Server) {
		Import.Handle(server, func(ctx context.Context, _ string) error {
			row, resumed, err := belay.Resume[int](ctx)
			for ; row < 4 && err == nil; row++ {
				if row == 2 && !resumed {
					return errBusy
				}
				fmt.Println("row", row)
				err = belay.Checkpoint(ctx, row+1)
			}
			return err
		})
	})
	must(Import.Enqueue(ctx, kit.Client(), "users.csv"))
	kit.DrainAll()
	// Output:
	// row 0
	// row 1
	// the server is busy
	// row 2
	// row 3
}

// The state, the progress and the result of a Report are kept for an hour after its end.
var Report = belay.DefineResult[string, int]("Report", belay.Idempotent(), belay.Track(time.Hour))

func Example_resultAndProgress() {
	kit := newKit()
	kit.Inline() // each push runs its job, in place of a server in another process
	kit.Serve(func(server *belay.Server) {
		Report.Handle(server, func(ctx context.Context, _ string) (int, error) {
			belay.Progress(ctx, 50, 100)
			return 7, nil
		})
	})
	receipt := must(Report.Enqueue(ctx, kit.Client(), "monthly"))
	rows, err := Report.Wait(ctx, kit.Client(), receipt.JID)
	fmt.Println(rows, err)
	tracked := must(kit.Client().Tracked(ctx, receipt.JID))
	fmt.Println(tracked.State, tracked.Done, tracked.Total)
	// Output:
	// 7 <nil>
	// done 50 100
}

// In a bubble of testing/synctest a night passes in no time. Its clock begins at midnight UTC.
func TestPeriodicInAZone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kit := belaytest.New(t)
		server := must(belay.NewServer(kit.Client(), belay.ServerConfig{Logger: silent}))
		Import.Handle(server, func(ctx context.Context, _ string) error {
			run, _ := belay.Info(ctx)
			if at := run.TickAt.Format("15:04 -07"); run.Periodic != "nightly" || at != "01:01 +01" {
				t.Errorf("a tick of %q at %s", run.Periodic, at)
			}
			server.Stop()
			return nil
		})
		err := server.Schedule(belay.Periodic{Name: "nightly", Cron: "1 1 * * *", Zone: "Europe/Berlin", Job: Import.Job("users.csv")})
		if err := errors.Join(err, server.Run(t.Context())); err != nil {
			t.Fatal(err)
		}
	})
}
