// Command chaosworker is the processes of a chaos run that may die at any instruction: a worker, or, with
// --push, a pusher of its share of a plan. Both record what happens to them, by single appends.
//
// It is a user's program: of Belay it knows what users import.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/driver/rueidisdriver"
	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
)

// flags are what the run tells a process.
type flags struct {
	url, client, prefix string
	dir, proc           string
	// pusher is whose share of the plan to push; -1 is to work. began is when the run did, by history.Now.
	pusher int
	began  time.Duration
}

func main() {
	var f flags
	flag.StringVar(&f.url, "redis", "", "URL of Redis")
	flag.StringVar(&f.client, "client", "go-redis", "go-redis or rueidis")
	flag.StringVar(&f.prefix, "prefix", "", "prefix of every key")
	flag.StringVar(&f.dir, "dir", "", "folder of the run, with its plan")
	flag.StringVar(&f.proc, "proc", "", "name of this process in the run")
	flag.IntVar(&f.pusher, "push", -1, "push the jobs of this pusher instead of working")
	flag.DurationVar(&f.began, "began", 0, "when the run began")
	flag.Parse()
	if err := f.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (f *flags) run() error {
	plan, err := chaosplan.Load(f.dir)
	if err != nil {
		return err
	}
	book, err := history.Create(f.dir, f.proc)
	if err != nil {
		return err
	}
	redis, err := f.open()
	if err != nil {
		return err
	}
	defer func() { _ = redis.Close() }()
	client, err := belay.NewClient(redis, &belay.ClientConfig{Prefix: f.prefix})
	if err != nil {
		return err
	}
	ctx := context.Background()
	if f.pusher >= 0 {
		return newPusher(f, plan, book, client, redis).run(ctx)
	}
	return work(ctx, f, plan, book, client)
}

func (f *flags) open() (driver.Client, error) {
	if f.client == "rueidis" {
		return rueidisdriver.Open(f.url)
	}
	return goredisdriver.Open(f.url)
}

// Args is what every job is called with. Spec keeps its ballast byte for byte.
type Args struct {
	Token string
	Spec  history.Spec
}

// asJSON is a job's arguments as the plan has them.
func asJSON(j chaosplan.Job) string {
	text, err := json.Marshal([]any{j.Token, j.Spec})
	if err != nil {
		panic(err) // the plan came from JSON
	}
	return string(text)
}
