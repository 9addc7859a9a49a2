// Command sweepworker is who dies in the sweep of crash points: a worker whose runs end in every way there is,
// or a producer of jobs.
//
//	sweepworker -redis URL -prefix P -ledger FILE [-client rueidis] [-hold CLASS] [-queue Q]... work
//	sweepworker -redis URL -prefix P -ledger FILE [-client rueidis] push
//
// What a run does is its job's class: one that begins with what -hold says goes on until it is cancelled. Any
// other ends; Slow a little later, Dies by a failure each time, Snoozes by asking once to run later, and what
// ends in Fails fails once. Each run appends to the ledger when it starts and when it has done its work, and
// each push once it is acknowledged, in lines as the program hand writes them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/driver/rueidisdriver"
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
)

// An actor runs or pushes jobs.
type actor struct {
	client *belay.Client
	prefix string
	ledger string
	hold   string
}

func main() {
	url, prefix := flag.String("redis", "", "URL of Redis"), flag.String("prefix", "", "of every key")
	library := flag.String("client", "go-redis", "go-redis or rueidis")
	ledger, hold := flag.String("ledger", "", "file to append to"), flag.String("hold", "-", "classes that begin so are held")
	var queues []string
	flag.Func("queue", "to take from; again for more", func(name string) error { queues = append(queues, name); return nil })
	flag.Parse()
	client, err := open(*library, *url, *prefix)
	if err != nil {
		die(err)
	}
	a := &actor{client: client, prefix: *prefix, ledger: *ledger, hold: *hold}
	switch flag.Arg(0) {
	case "work":
		err = a.work(queues)
	case "push":
		err = a.push(context.Background())
	default:
		err = fmt.Errorf("%q: work or push?", flag.Arg(0))
	}
	if err != nil {
		die(err)
	}
}

func open(library, url, prefix string) (*belay.Client, error) {
	var redis driver.Client
	var err error
	if library == "rueidis" {
		redis, err = rueidisdriver.Open(url)
	} else {
		redis, err = goredisdriver.Open(url)
	}
	if err != nil {
		return nil, err
	}
	return belay.NewClient(redis, &belay.ClientConfig{Prefix: prefix})
}

func (a *actor) work(queues []string) error {
	server, err := belay.NewServer(a.client, belay.ServerConfig{
		Queues: belay.Queues(queues...), Concurrency: 3, Heartbeat: beat, TTL: ttl, ShutdownTimeout: grace,
	})
	if err != nil {
		return err
	}
	server.HandleUnknown(a.run)
	return belay.Process{Server: server}.Run(context.Background())
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

func (a *actor) item(name, queue string, in time.Duration) belay.RawJob {
	return belay.RawJob{Class: "Done", Queue: queue, JID: a.prefix + "-" + name, In: in}
}

// note appends a line in a single write, so that lines of several processes never mix and a kill leaves no half
// of one.
func (a *actor) note(what, class, jid string) {
	line, err := json.Marshal(map[string]any{"what": what, "class": class, "jid": jid, "worker": os.Getpid(), "at": time.Now().UnixNano()})
	if err != nil {
		die(err)
	}
	file, err := os.OpenFile(a.ledger, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		die(err)
	}
	if _, err := file.Write(append(line, '\n')); err != nil {
		die(err)
	}
	_ = file.Close()
}

func die(err error) {
	fmt.Fprintln(os.Stderr, "sweepworker:", err)
	os.Exit(1)
}
