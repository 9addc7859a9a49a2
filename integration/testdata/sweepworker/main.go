// Command sweepworker is who dies in the sweep of crash points: a worker whose runs end in every way there is,
// or a producer of jobs.
//
//	sweepworker -redis URL -prefix P -ledger FILE [-client rueidis] [-hold CLASS] [-schedule] [-limited] [-queue Q]... work
//	sweepworker -redis URL -prefix P -ledger FILE [-client rueidis] push
//	sweepworker -redis URL -prefix P -ledger FILE [-client rueidis] batch
//	sweepworker -redis URL -prefix P -ledger FILE [-client rueidis] do
//
// With batch it makes a batch, and fills and seals it, under ids that are the same each time.
// With do it calls a function twice with a slot of a limit, the second time while a worker may want it too.
// With -schedule the worker has a periodic job in its code, which is not due. With -limited its classes that
// begin with Gated have a limit of one run at once, and those that begin with Paced one of one start in a while.
//
// What a run does is its job's class: one that begins with what -hold says goes on until it is cancelled. Any
// other ends; Slow a little later, Dies by a failure each time, Snoozes by asking once to run later, and what
// ends in Fails fails once. Imports have a cursor, which they advance by one in each run; a run after a failure
// that finds none notes that it has forgotten. Each run appends to the ledger when it starts and when it has
// done its work, and each push once it is acknowledged, in lines as the program hand writes them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/integration/program"
)

const (
	// beat and ttl are about as fast as a machine that does other things, too, can keep up with.
	beat, ttl = 100 * time.Millisecond, 400 * time.Millisecond
	// soon is how long retries and snoozes wait.
	soon = 20 * time.Millisecond
	// awhile is how long Slow takes: longer than it takes to bring back the jobs of a dead process, so that
	// quarantined jobs wait for it, and its process drains.
	awhile = 3 * ttl
	// grace is how long running jobs may go on after TERM.
	grace = beat / 2
	// pace is the time between two starts of Paced: longer than the least time between two looks of a poller.
	pace = 60 * time.Millisecond
)

// one is the limit of the classes that begin with Gated, and paced that of those that begin with Paced.
var (
	one   = belay.Limit{Name: "one", Concurrency: 1}
	paced = belay.Limit{Name: "paced", Rate: belay.Window(1, pace)}
)

// An actor runs or pushes jobs.
type actor struct {
	client *belay.Client
	prefix string
	ledger string
	hold   string
	// schedule says that the worker has a periodic job.
	schedule bool
	// limited says that the worker declares the limits.
	limited bool
}

func main() {
	var f program.Flags
	f.Add()
	ledger, hold := flag.String("ledger", "", "file to append to"), flag.String("hold", "-", "classes that begin so are held")
	schedule := flag.Bool("schedule", false, "register a periodic job")
	limited := flag.Bool("limited", false, "declare limits")
	var queues []string
	flag.Func("queue", "to take from; again for more", func(name string) error { queues = append(queues, name); return nil })
	flag.Parse()
	client, err := f.Open()
	if err != nil {
		program.Exit(err)
	}
	a := &actor{client: client, prefix: f.Prefix, ledger: *ledger, hold: *hold, schedule: *schedule, limited: *limited}
	switch flag.Arg(0) {
	case "work":
		err = a.work(queues)
	case "push":
		err = a.push(context.Background())
	case "batch":
		err = a.batch(context.Background())
	case "do":
		err = a.do(context.Background())
	default:
		err = fmt.Errorf("%q: work, push, batch or do?", flag.Arg(0))
	}
	program.Exit(err)
}

func (a *actor) work(queues []string) error {
	server, err := belay.NewServer(a.client, belay.ServerConfig{
		Queues: belay.Queues(queues...), Concurrency: 3, Heartbeat: beat, TTL: ttl, ShutdownTimeout: grace, SaveInterval: time.Nanosecond,
	})
	if err != nil {
		return err
	}
	server.HandleUnknown(a.run)
	if a.limited {
		for _, class := range []string{"GatedDone", "GatedFails", "GatedHolds", "GatedStays"} {
			server.HandleRaw(class, a.run, belay.LimitedTo(one))
		}
		server.HandleRaw("PacedDone", a.run, belay.LimitedTo(paced))
	}
	if a.schedule {
		if err := server.Schedule(belay.Periodic{Name: "code", Cron: "0 0 1 1 *", Job: belay.RawJob{Class: "Done", Queue: "a"}, CatchUp: belay.CatchUpSkip}); err != nil {
			return err
		}
	}
	return server.RunProcess(context.Background(), belay.ProcessConfig{})
}

func (a *actor) run(ctx context.Context, j *belay.Job) error {
	a.note("start", j.Class(), j.JID())
	if strings.HasPrefix(j.Class(), a.hold) {
		<-ctx.Done()
		return ctx.Err()
	}
	if j.Class() == "Slow" {
		time.Sleep(awhile)
	}
	defer a.note("end", j.Class(), j.JID())
	_, failed := j.RetryCount()
	if strings.HasPrefix(j.Class(), "Imports") {
		if err := a.goOn(ctx, j, failed); err != nil {
			return err
		}
	}
	switch class := j.Class(); {
	case strings.HasSuffix(class, "Fails") && !failed:
		return belay.RetryIn(soon, errors.New("it fails once"))
	case class == "Dies":
		return errors.New("it fails always")
	case class == "Snoozes" && a.first(j.JID()):
		return belay.Snooze(soon)
	}
	return nil
}

// goOn advances a job's cursor.
func (a *actor) goOn(ctx context.Context, j *belay.Job, failed bool) error {
	done, resumed, err := belay.Resume[int](ctx)
	if err != nil {
		return err
	}
	if failed && !resumed {
		a.note("forgotten", j.Class(), j.JID())
	}
	return belay.Checkpoint(ctx, done+1)
}

// first says once of each job, to all processes together, that this is the first run: a snooze leaves no trace
// in a job.
func (a *actor) first(jid string) bool {
	file, err := os.OpenFile(a.ledger+"."+jid, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	_ = file.Close()
	return true
}

// push pushes in every way there is: one, one for later, several to one queue, several to several and for
// later. The name of a job begins with that of its push.
func (a *actor) push(ctx context.Context) error {
	for _, together := range [][]belay.RawJob{
		{a.item("one", "a", 0)},
		{a.item("later", "a", soon)},
		{a.item("bulk-1", "b", 0), a.item("bulk-2", "b", 0), a.item("bulk-3", "b", 0)},
		{a.item("mixed-1", "a", 0), a.item("mixed-2", "b", 0), a.item("mixed-3", "c", 0), a.item("mixed-4", "c", soon)},
	} {
		var err error
		if len(together) == 1 {
			_, err = a.client.Push(ctx, together[0])
		} else {
			_, err = a.client.PushMany(ctx, slices.Values(together))
		}
		if err != nil {
			return err
		}
		for _, item := range together {
			a.note("acked", item.Class, item.JID)
		}
	}
	return nil
}

// batch makes a batch, fills it and seals it. If it is sealed, all that was done before.
func (a *actor) batch(ctx context.Context) error {
	called := func(name string) belay.RawJob {
		return belay.RawJob{Class: "Called", Queue: "a", JID: a.prefix + "-" + name}
	}
	cfg := belay.BatchConfig{ID: a.prefix + "-batch", OnComplete: called("complete"), OnSuccess: called("success")}
	_, err := belay.NewBatch(ctx, a.client, cfg, func(b *belay.Batch) error {
		for at, class := range []string{"Done", "Fails", "Done"} {
			item := a.item(fmt.Sprint("member-", at+1), "b", 0)
			item.Class, item.Batch = class, b
			if _, err := a.client.Push(ctx, item); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, belay.ErrBatchOver) {
		return nil
	}
	return err
}

// do calls a function with a slot, one time after the other.
func (a *actor) do(ctx context.Context) error {
	for range 2 {
		err := belay.Do(ctx, a.client, one, "", func(context.Context) error {
			a.note("acted", "", "")
			return nil
		}, belay.WaitUpTo(time.Minute))
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *actor) item(name, queue string, in time.Duration) belay.RawJob {
	return belay.RawJob{Class: "Done", Queue: queue, JID: a.prefix + "-" + name, In: in}
}

func (a *actor) note(what, class, jid string) {
	err := program.Note(a.ledger, map[string]any{"what": what, "class": class, "jid": jid, "worker": os.Getpid(), "at": time.Now().UnixNano()})
	if err != nil {
		program.Exit(err)
	}
}
