// Command chaosworker is the processes of a chaos run that may die at any instruction: a worker, or, with
// --push, a pusher of its share of a plan, or, with --rivals, a pusher of unique jobs until TERM, or, with
// --batches, a pusher of batches. With --limit or --rate the worker runs limited jobs too. All record what
// happens to them, by single appends.
//
// It is a user's program: of Belay it knows what users import.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"time"

	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/integration/program"
)

// flags are what the run tells a process.
type flags struct {
	program.Flags
	dir, proc string
	// pusher is whose share of the plan to push; -1 is to work. began is when the run did, by history.Now.
	pusher int
	began  time.Duration
	// rivals is how many push unique jobs, instead of working; seed decides which.
	rivals, interruptions int
	seed                  uint64
	// batches is how many to make, of so many members, one in a pace since the run began: this process makes
	// those of its share, 0 or 1.
	batches, size, share int
	pace                 time.Duration
	// limit is how many limited jobs of one key may run at once; 0 is for a worker that knows no limited class.
	limit int
	// rate is how many limited jobs may start in a time, as package limit writes it.
	rate string
}

func main() {
	var f flags
	f.Add()
	flag.StringVar(&f.dir, "dir", "", "folder of the run, with its plan")
	flag.StringVar(&f.proc, "proc", "", "name of this process in the run")
	flag.IntVar(&f.pusher, "push", -1, "push the jobs of this pusher instead of working")
	flag.DurationVar(&f.began, "began", 0, "when the run began")
	flag.IntVar(&f.rivals, "rivals", 0, "how many push unique jobs, instead of working")
	flag.Uint64Var(&f.seed, "seed", 1, "decides which unique jobs are pushed")
	flag.IntVar(&f.interruptions, "max-interruptions", 3, "in how many crashes a job may be in hand")
	flag.IntVar(&f.batches, "batches", 0, "how many batches there are, of which this process makes its share, instead of working")
	flag.IntVar(&f.size, "size", 0, "how many members a batch has")
	flag.IntVar(&f.share, "share", 0, "make the even batches (0) or the odd ones (1)")
	flag.DurationVar(&f.pace, "pace", 0, "time from one batch to the next")
	flag.IntVar(&f.limit, "limit", 0, "run limited jobs, so many of one key at once")
	flag.StringVar(&f.rate, "rate", "", "run limited jobs, all of them at this rate, such as 100/600ms")
	flag.Parse()
	program.Exit(f.run())
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
	client, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	ctx := context.Background()
	if f.rivals > 0 {
		return f.pushRivals(book, client)
	}
	if f.batches > 0 {
		return f.pushBatches(client)
	}
	if f.pusher >= 0 {
		operator, err := f.As(os.Getenv("BELAY_OPERATOR_URL")).Open() // a producer may not cancel jobs
		if err != nil {
			return err
		}
		defer func() { _ = operator.Close() }()
		return (&pusher{flags: f, plan: plan, book: book, client: client, operator: operator}).run(ctx)
	}
	return work(ctx, f, plan, book, client)
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
