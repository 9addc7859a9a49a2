package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/riverqueue/river"

	"github.com/belayq/belay/bench/peers/measure"
)

// noopArgs are the arguments of a job that does nothing. With River, arguments are a struct whose fields have
// names.
type noopArgs struct {
	N int `json:"n"`
}

// Kind names the job's class.
func (noopArgs) Kind() string { return "Noop" }

// emailArgs are those of a job with a payload, which is stored and never run.
type emailArgs struct {
	N        int               `json:"n"`
	Template string            `json:"template"`
	Options  map[string]string `json:"options"`
}

// Kind names the job's class.
func (emailArgs) Kind() string { return "WelcomeEmail" }

// insertion is a job as River takes it.
func insertion(job measure.Job) (river.JobArgs, *river.InsertOpts) {
	var options *river.InsertOpts
	if !job.DueAt.IsZero() {
		options = &river.InsertOpts{ScheduledAt: job.DueAt}
	}
	if job.Class == measure.Email {
		return emailArgs{N: job.N, Template: "welcome", Options: map[string]string{"locale": "en"}}, options
	}
	return noopArgs{N: job.N}, options
}

// A worker runs jobs that do nothing. River wants to have it before the measure has said what to do with each.
type worker struct {
	river.WorkerDefaults[noopArgs]
	handle measure.Handler
}

// Work hands the job to the measure.
func (w *worker) Work(_ context.Context, job *river.Job[noopArgs]) error {
	err := w.handle(job.Args.N, strconv.FormatInt(job.ID, 10))
	if errors.Is(err, measure.ErrBusy) {
		return river.JobSnooze(measure.Later())
	}
	return err
}
