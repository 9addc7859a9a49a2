// Package asynq is the side of asynq in the comparison of package needs.
package asynq

//revive:disable:exported The comments are those that the test reads.

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/hibiken/asynq"
)

// What every program has.
var (
	ctx       = context.Background()
	redis     = asynq.RedisClientOpt{Addr: "localhost:6379"}
	client    *asynq.Client
	mux       = asynq.NewServeMux()
	inspector *asynq.Inspector
	errTry    = errors.New("try again")
	errNot    = errors.New("no such user")
)

type WelcomeArgs struct{ UserID int64 }

func NewWelcome(args WelcomeArgs, opts ...asynq.Option) (*asynq.Task, error) {
	payload, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	return asynq.NewTask("welcome", payload, opts...), nil
}

func HandleWelcome(_ context.Context, task *asynq.Task) error {
	var args WelcomeArgs
	return json.Unmarshal(task.Payload(), &args)
}

func Register() { mux.HandleFunc("welcome", HandleWelcome) }

// need: options of one job

func Options() error {
	task, err := NewWelcome(WelcomeArgs{42}, asynq.Queue("vip"), asynq.MaxRetry(3))
	if err != nil {
		return err
	}
	_, err = client.EnqueueContext(ctx, task)
	return err
}

// need: a delay

func Delayed() error {
	task, err := NewWelcome(WelcomeArgs{42})
	if err != nil {
		return err
	}
	_, err = client.EnqueueContext(ctx, task, asynq.ProcessIn(10*time.Minute))
	return err
}

// need: a unique job

func Unique() error {
	task, err := NewWelcome(WelcomeArgs{42})
	if err != nil {
		return err
	}
	_, err = client.EnqueueContext(ctx, task, asynq.Unique(time.Hour))
	return err
}

// need: one job for each key of its arguments

type ChargeArgs struct {
	Order  string
	Amount int64
}

func Charge(args ChargeArgs) error {
	payload, err := json.Marshal(args)
	if err != nil {
		return err
	}
	_, err = client.EnqueueContext(ctx, asynq.NewTask("charge", payload), asynq.TaskID("charge:"+args.Order))
	return err
}

// need: create once by my key

func Once() error {
	task, err := NewWelcome(WelcomeArgs{42})
	if err != nil {
		return err
	}
	_, err = client.EnqueueContext(ctx, task, asynq.TaskID("stripe:evt_1"), asynq.Retention(24*time.Hour))
	return err
}

// need: a tenant that travels with the job

func Tenant() error {
	payload, err := json.Marshal(WelcomeArgs{42})
	if err != nil {
		return err
	}
	_, err = client.EnqueueContext(ctx, asynq.NewTaskWithHeaders("welcome", payload, map[string]string{"tenant": "acme"}))
	return err
}

func OfTenant(_ context.Context, task *asynq.Task) error { return InTenant(task.Headers()["tenant"]) }

func InTenant(string) error { return nil }

// need: a delay of its own before a retry

func Downloads() *asynq.Server {
	return asynq.NewServer(redis, asynq.Config{
		RetryDelayFunc: func(count int, err error, task *asynq.Task) time.Duration {
			if task.Type() == "download" {
				return time.Minute << count
			}
			return asynq.DefaultRetryDelayFunc(count, err, task)
		},
	})
}

// need: the handler chooses the delay

type retryIn struct {
	error
	delay time.Duration
}

func Limited(context.Context, *asynq.Task) error { return retryIn{errTry, 30 * time.Second} }

func Patient() *asynq.Server {
	return asynq.NewServer(redis, asynq.Config{
		RetryDelayFunc: func(count int, err error, task *asynq.Task) time.Duration {
			if after, is := errors.AsType[retryIn](err); is {
				return after.delay
			}
			return asynq.DefaultRetryDelayFunc(count, err, task)
		},
	})
}

// need: an error that ends the job

func GivingUp(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		err := next.ProcessTask(ctx, task)
		if errors.Is(err, errNot) {
			return errors.Join(err, asynq.SkipRetry)
		}
		return err
	})
}

// need: an error tracker

func Tracker(report func(class string, err error)) *asynq.Server {
	return asynq.NewServer(redis, asynq.Config{
		ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, task *asynq.Task, err error) { report(task.Type(), err) }),
	})
}

// need: a timeout

func Slow() *asynq.Task { return asynq.NewTask("slow", nil, asynq.Timeout(time.Minute)) }

// need: middleware around each run

func Traced(begin func(class string) (end func())) {
	mux.Use(func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			defer begin(task.Type())()
			return next.ProcessTask(ctx, task)
		})
	})
}

// need: queues by priority

func Prioritized() *asynq.Server {
	return asynq.NewServer(redis, asynq.Config{Queues: map[string]int{"critical": 2, "default": 1}, StrictPriority: true})
}

// need: a stop that waits for running jobs

func Stopping(ctx context.Context) error {
	server := asynq.NewServer(redis, asynq.Config{ShutdownTimeout: 30 * time.Second})
	if err := server.Start(mux); err != nil {
		return err
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}

// need: the result of a job

func Report(_ context.Context, task *asynq.Task) error {
	_, err := task.ResultWriter().Write([]byte("7"))
	return err
}

func Result(id string) (rows int, err error) {
	for {
		info, err := inspector.GetTaskInfo("default", id)
		if err != nil {
			return 0, err
		}
		if info.State == asynq.TaskStateCompleted {
			return rows, json.Unmarshal(info.Result, &rows)
		}
		time.Sleep(time.Second)
	}
}

// need: a periodic job in a time zone

func Nightly() error {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		return err
	}
	task, err := NewWelcome(WelcomeArgs{42})
	if err != nil {
		return err
	}
	scheduler := asynq.NewScheduler(redis, &asynq.SchedulerOpts{Location: zone})
	if _, err := scheduler.Register("0 1 * * *", task); err != nil {
		return err
	}
	return scheduler.Start()
}

// need: what waits in a queue

func Waiting(show func(class string)) error {
	for page := 1; ; page++ {
		tasks, err := inspector.ListPendingTasks("default", asynq.Page(page))
		if err != nil || len(tasks) == 0 {
			return err
		}
		for _, task := range tasks {
			show(task.Type)
		}
	}
}

// need: pause a queue

func Pause() error { return inspector.PauseQueue("mail") }

// need: cancel a job

func Cancel(id string) error {
	return errors.Join(inspector.CancelProcessing(id), inspector.DeleteTask("default", id))
}

// need: a service that answers 429

type tooMany struct{ error }

func Call(_ context.Context, task *asynq.Task) error {
	response, err := http.Get(string(task.Payload()))
	if err == nil && response.StatusCode == http.StatusTooManyRequests {
		return tooMany{errTry}
	}
	return err
}

func Snoozing() *asynq.Server {
	return asynq.NewServer(redis, asynq.Config{
		IsFailure: func(err error) bool {
			_, is := errors.AsType[tooMany](err)
			return !is
		},
		RetryDelayFunc: func(count int, err error, task *asynq.Task) time.Duration {
			if _, is := errors.AsType[tooMany](err); is {
				return 30 * time.Second
			}
			return asynq.DefaultRetryDelayFunc(count, err, task)
		},
	})
}
