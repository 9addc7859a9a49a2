package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/job"
)

// A bulk is one file being pushed. Not more of it is in memory than a slice of jobs.
type bulk struct {
	pusher *client.Client
	again  persistence
	lines  *jobLines
	flags  pushFlags
	out    *output
	errs   io.Writer

	pending []numbered // drawn by the pusher, and nothing heard of yet
	through int        // the last line that Redis was asked to store
	queued  int
	refused int
	unknown int
	already int // refused as duplicates
	queues  hints
	missed  int // certainly not pushed, and not their own fault

	began, toldAt time.Time
	every         time.Duration // between two lines of progress
}

// progressEvery is how often a long push says how far it has come. One that takes less says nothing before its summary.
const progressEvery = 2 * time.Second

// numbered is a job and the line it stands in.
type numbered struct {
	client.RawJob
	line int
}

func pushFile(cmd *cobra.Command, pusher *client.Client, flags pushFlags, rule job.RetryRule) error {
	in := cmd.InOrStdin()
	if flags.file != "-" {
		file, err := os.Open(flags.file)
		if err != nil {
			return fmt.Errorf("read jobs: %w", err)
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	reading, stop := untilSignal()
	defer stop()
	b := &bulk{pusher: pusher, flags: flags, out: outputOf(cmd), errs: cmd.ErrOrStderr(), every: progressEvery, queues: hints{}}
	b.began = time.Now()
	b.toldAt = b.began
	b.again = persistence{pusher: pusher, most: flags.repeatFor, errs: b.errs}
	b.lines = newJobLines(reading, in, client.RawJob{Queue: flags.queue, Retry: rule, PushOnce: true, Unique: flags.unique.rule()}, b.refuse)
	defer b.lines.close()
	err := b.push(context.Background()) // not reading: what has been read by then is pushed
	b.queues.tell(pusher, b.errs)
	duplicates := ""
	if b.already > 0 || flags.unique.until != "" {
		duplicates = fmt.Sprintf("%d duplicates, ", b.already)
	}
	_, _ = fmt.Fprintf(b.errs, "%d queued, %s%d refused, %d unknown, %d not pushed\n", b.queued, duplicates, b.refused, b.unknown, b.missed)
	switch {
	case err != nil:
		return err
	case b.refused > 0:
		return fmt.Errorf("%d of %d lines were refused", b.refused, b.refused+b.queued+b.already)
	case b.already > 0:
		return duplicateError{fmt.Errorf("%d of %d lines were duplicates", b.already, b.queued+b.already)}
	}
	return nil
}

// push pushes until the file, Redis or the output ends. A job that cannot be pushed takes its slice with it before anything
// of that is sent; so the others are pushed again, now as a slice of their own, and each job is tried twice at most.
func (b *bulk) push(ctx context.Context) error {
	for {
		err := b.slices(ctx, b.lines.next)
		switch {
		case err == nil && b.lines.ended:
			return b.lines.err
		case err == nil: // the input paused, and what had come is pushed
			continue
		}
		var invalid *client.InvalidError
		if !errors.As(err, &invalid) {
			return err
		}
		last := len(b.pending) - 1
		b.refuse(b.pending[last].line, invalid.Err)
		rest := b.pending[:last]
		b.pending = nil
		if err := b.slices(ctx, each(rest)); err != nil {
			return err
		}
	}
}

// A source draws the next job. It answers none at its end, and, if others are waiting to be pushed, when none comes soon.
type source func(waiting bool) (numbered, bool)

// drawn yields what next draws, and notes it as pending.
func (b *bulk) drawn(next source) iter.Seq[client.RawJob] {
	return func(yield func(client.RawJob) bool) {
		for {
			job, ok := next(len(b.pending) > 0)
			if !ok {
				return
			}
			b.pending = append(b.pending, job)
			if !yield(job.RawJob) {
				return
			}
		}
	}
}

// each draws jobs that were drawn before.
func each(jobs []numbered) source {
	return func(bool) (numbered, bool) {
		if len(jobs) == 0 {
			return numbered{}, false
		}
		first := jobs[0]
		jobs = jobs[1:]
		return first, true
	}
}

// slices pushes what next draws, until that draws none.
func (b *bulk) slices(ctx context.Context, next source) error {
	for {
		repeated, err := b.until(ctx, next)
		if err != nil || !repeated {
			return err
		}
	}
}

// until pushes what next draws, and reports each slice that Redis has heard of, up to the first that had to be repeated.
func (b *bulk) until(ctx context.Context, next source) (repeated bool, err error) {
	for receipts, failure := range b.pusher.PushSlices(ctx, b.drawn(next)) {
		var invalid *client.InvalidError
		if errors.As(failure, &invalid) {
			return false, failure
		}
		var bulk *client.BulkError
		if repeated = errors.As(failure, &bulk); repeated {
			failure = bulk.Err // the summary has its numbers
		}
		receipts, err = b.again.persist(ctx, receipts, failure, b.queued+b.already > 0)
		b.report(receipts)
		if err == nil {
			err = b.heard()
		}
		if err != nil {
			return false, err
		}
	}
	return repeated, nil
}

// report prints the receipts of the oldest pending jobs.
func (b *bulk) report(receipts []client.Receipt) {
	for i, receipt := range receipts {
		line := b.pending[i].line
		b.through = line
		b.queues.note(receipt)
		switch receipt.Status {
		case client.StatusQueued, client.StatusScheduled:
			b.queued++
		case client.StatusDuplicate:
			b.already++
		case client.StatusUnknown:
			b.unknown++
		default:
			b.missed++
		}
		switch {
		case receipt.Status == client.StatusQueued || receipt.Status == client.StatusScheduled || b.flags.asJSON:
			printReceipt(b.out, b.flags.asJSON, receipt, line)
		case receipt.Status == client.StatusDuplicate:
			_, _ = fmt.Fprintf(b.errs, "line %d: a duplicate of %s\n", line, plain(receipt.Holder))
		case receipt.Status == client.StatusUnknown:
			_, _ = fmt.Fprintf(b.errs, "line %d: unknown: Redis may or may not have it (jid %s)\n", line, plain(receipt.JID))
		}
	}
	b.pending = append(b.pending[:0], b.pending[len(receipts):]...)
	b.progress(time.Now())
}

// heard is an error when nobody reads the receipts any more. Nothing more is pushed then: whoever wants the jids would have
// to guess which of the lines they are of.
func (b *bulk) heard() error {
	if err := b.out.failure(); err != nil {
		return fmt.Errorf("%w; nothing after line %d was pushed", err, b.through)
	}
	return nil
}

// progress says how far it has come, when it is time to.
func (b *bulk) progress(now time.Time) {
	if now.Sub(b.toldAt) < b.every {
		return
	}
	b.toldAt = now
	_, _ = fmt.Fprintf(b.errs, "%d queued, %.0f/s, %d refused so far\n", b.queued, float64(b.queued)/now.Sub(b.began).Seconds(), b.refused+b.already)
}

// refuse reports a line that cannot be pushed.
func (b *bulk) refuse(line int, why error) {
	b.refused++
	_, _ = fmt.Fprintf(b.errs, "line %d: refused: %s\n", line, oneLine(why.Error()))
}
