// Command rival is the processes of a storm of unique jobs: a worker, or, with --push, some who push rivals,
// jobs of few kinds, until they are killed or stopped. Both record what happens to them, by single
// appends, for package
//
// It is a user's program: of Belay it knows what users import.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/driver/rueidisdriver"
	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/job"
)

// Args is what every job is called with.
type Args struct {
	Key string
	// Millis is how long a run takes, and Odds of how many runs one fails. They are the key's own: rivals have
	// equal arguments.
	Millis, Odds int
}

// hour is longer than any run of the storm: no lock may run out.
var hour = belay.LockTTL(time.Hour)

// classes are the rivals, by what they say of their lock; the test knows onceMore.
var classes = map[string]*belay.Definition[Args]{
	untilExecuting: belay.Define[Args]("Executing", belay.Unique(belay.UntilExecuting, hour)),
	untilExecuted:  belay.Define[Args]("Executed", belay.Unique(belay.UntilExecuted, hour)),
	onceMore:       belay.Define[Args]("OnceMore", belay.Unique(belay.UntilExecuted, hour, belay.RescheduleOnce())),
}

const (
	untilExecuting = "until_executing"
	untilExecuted  = "until_executed"
	onceMore       = "until_executed, once more"
)

var modes = []string{untilExecuting, untilExecuted, onceMore}

type flags struct {
	url, client, prefix, dir, proc string
	push, keys, interruptions      int
	seed                           uint64
}

func main() {
	var f flags
	flag.StringVar(&f.url, "redis", "", "URL of Redis")
	flag.StringVar(&f.client, "client", "go-redis", "go-redis or rueidis")
	flag.StringVar(&f.prefix, "prefix", "", "prefix of every key")
	flag.StringVar(&f.dir, "dir", "", "folder of the histories")
	flag.StringVar(&f.proc, "proc", "", "name of this process")
	flag.IntVar(&f.push, "push", 0, "how many push, instead of working")
	flag.IntVar(&f.keys, "keys", 50, "of how many kinds")
	flag.IntVar(&f.interruptions, "max-interruptions", 3, "in how many crashes a job may be in hand")
	flag.Uint64Var(&f.seed, "seed", 1, "decides what is pushed and what fails")
	flag.Parse()
	if err := f.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (f *flags) run() error {
	book, err := history.Create(f.dir, f.proc)
	if err != nil {
		return err
	}
	var redis driver.Client
	if f.client == "rueidis" {
		redis, err = rueidisdriver.Open(f.url)
	} else {
		redis, err = goredisdriver.Open(f.url)
	}
	if err != nil {
		return err
	}
	defer func() { _ = redis.Close() }()
	client, err := belay.NewClient(redis, &belay.ClientConfig{Prefix: f.prefix})
	if err != nil {
		return err
	}
	if f.push > 0 {
		return f.pushAll(book, client)
	}
	return f.work(book, client)
}

// pushAll has several push until TERM.
func (f *flags) pushAll(book *history.Writer, client *belay.Client) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var all sync.WaitGroup
	for n := range f.push {
		all.Go(func() {
			dice := rand.New(rand.NewPCG(f.seed, uint64(n)))
			for ctx.Err() == nil {
				f.pushOne(ctx, dice, book, client)
				pause := time.NewTimer(time.Duration(dice.ExpFloat64() * float64(150*time.Millisecond)))
				select {
				case <-ctx.Done():
				case <-pause.C:
				}
			}
		})
	}
	all.Wait()
	return nil
}

// pushOne pushes one job and records the answer. Every other one is repeated while its answer does not
// come.
func (f *flags) pushOne(ctx context.Context, dice *rand.Rand, book *history.Writer, client *belay.Client) {
	n := dice.IntN(f.keys)
	mode := modes[n%len(modes)]
	args := Args{Key: fmt.Sprintf("%s/%02d", mode, n), Millis: 1 + n*n/15, Odds: 3 + n%5}
	jid := job.NewJID()
	options := []belay.JobOption{belay.JID(jid)}
	if dice.IntN(2) == 0 {
		options = append(options, belay.PushOnce())
	}
	event := history.Event{Kind: history.Invoke, Token: args.Key, JID: jid, Spec: &history.Spec{Kind: mode}}
	book.Append(event)
	// Not with the end of the process: what has been sent is waited for.
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	receipt, err := classes[mode].Enqueue(within, client, args, options...)
	event.Spec = nil
	switch {
	case receipt.Status == belay.StatusQueued:
		event.Kind = history.Accepted
	case receipt.Status == belay.StatusDuplicate:
		event.Kind, event.Text = history.Duplicate, receipt.Holder
	case errors.Is(err, belay.ErrUnknown):
		event.Kind, event.Text = history.Unknown, err.Error()
	default:
		event.Kind, event.Text = history.Refused, fmt.Sprint(err)
	}
	book.Append(event)
}

// work runs a worker to its end.
func (f *flags) work(book *history.Writer, client *belay.Client) error {
	server, err := belay.NewServer(client, belay.ServerConfig{
		Name: f.proc, Concurrency: 3, Heartbeat: 300 * time.Millisecond, TTL: 1500 * time.Millisecond, ShutdownTimeout: time.Second,
		MaxInterruptions: f.interruptions, Logger: belay.Zerolog(zerolog.New(os.Stderr).With().Timestamp().Logger()),
	})
	if err != nil {
		return err
	}
	server.Use("job", func(next belay.Handler) belay.Handler {
		return func(ctx context.Context, j *belay.Job) error { return next(context.WithValue(ctx, jobKey{}, j), j) }
	})
	for mode, class := range classes {
		class.Handle(server, func(ctx context.Context, args Args) error { return obey(ctx, book, mode, args) })
	}
	return belay.Process{Server: server}.Run(context.Background())
}

type jobKey struct{}

// obey is the handler: it takes its time, and sometimes it fails.
func obey(ctx context.Context, book *history.Writer, mode string, args Args) error {
	j, ok := ctx.Value(jobKey{}).(*belay.Job)
	if !ok {
		return errors.New("a run of no job")
	}
	start := history.Event{
		Kind: history.Start, Token: args.Key, JID: j.JID(), Run: job.NewJID(), Interrupted: j.InterruptedCount(), Spec: &history.Spec{Kind: mode},
	}
	book.Append(start)
	finish := func(outcome string) {
		book.Append(history.Event{Kind: history.Finish, Token: args.Key, JID: j.JID(), Run: start.Run, Outcome: outcome})
	}
	done := time.NewTimer(time.Duration(args.Millis) * time.Millisecond)
	defer done.Stop()
	select {
	case <-done.C:
	case <-ctx.Done():
		finish(history.Stopped)
		return context.Cause(ctx)
	}
	failure := errors.New("as the dice fell")
	switch dice := rand.IntN(args.Odds * 4); {
	case dice < 4:
		finish(history.Later)
		return belay.RetryIn(rand.N(400*time.Millisecond), failure)
	case dice == 4 && strings.HasSuffix(args.Key, "7"):
		finish(history.Killed)
		return belay.Kill(failure)
	case dice == 5:
		finish(history.Discarded)
		return belay.Discard(failure)
	case dice == 6:
		finish(history.Snoozed)
		return belay.Snooze(rand.N(400 * time.Millisecond))
	}
	finish(history.OK)
	return nil
}
