package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/client"
)

// A bulk is a file being pushed. It keeps no more than one batch of jobs in memory.
type bulk struct {
	cmd    *cobra.Command
	pusher *client.Client
	flags  pushFlags

	through    int // the last line that Redis was asked to store
	queued     int
	refused    int
	unknown    int
	duplicates int
	missed     int // certainly not pushed, although valid
	queues     hints

	began, reportedAt time.Time
}

// progressEvery is how often a long command reports its progress.
const progressEvery = 2 * time.Second

func pushFile(cmd *cobra.Command, pusher *client.Client, flags pushFlags) error {
	in, done, err := openLines(cmd, flags.file)
	if err != nil {
		return err
	}
	defer done()
	reading, stop := untilSignal()
	defer stop()
	now := time.Now()
	b := &bulk{cmd: cmd, pusher: pusher, flags: flags, queues: hints{}, began: now, reportedAt: now}
	lines := newJobLines(reading, in, flags.job, b.refuse)
	for err == nil && !lines.ended {
		err = b.push(context.Background(), lines.batch()) // not reading: what was read before a signal is pushed
	}
	err = cmp.Or(err, lines.err)
	b.queues.print(cmd, pusher)
	duplicates := word(b.duplicates > 0 || flags.job.Unique != nil, fmt.Sprintf("%d duplicates, ", b.duplicates))
	cmd.PrintErrf("%d queued, %s%d refused, %d unknown, %d not pushed\n", b.queued, duplicates, b.refused, b.unknown, b.missed)
	switch {
	case errors.Is(err, client.ErrReplicas):
		return statusError{fmt.Errorf("%w; nothing after line %d was pushed", err, b.through), exitReplicas}
	case err != nil:
		return err
	case b.refused > 0:
		return fmt.Errorf("%d of %d lines were refused", b.refused, b.refused+b.queued+b.duplicates)
	case b.duplicates > 0:
		return statusError{fmt.Errorf("%d of %d lines were duplicates", b.duplicates, b.queued+b.duplicates), exitDuplicate}
	}
	return nil
}

// push pushes jobs. An invalid job fails its slice before anything of it is sent, and the others are pushed
// again without it. So each invalid job costs that the jobs of its slice are written again, and no round trip.
func (b *bulk) push(ctx context.Context, jobs []jobLine) error {
	for len(jobs) > 0 {
		all := func(yield func(client.RawJob) bool) {
			for _, j := range jobs {
				if !yield(j.RawJob) {
					return
				}
			}
		}
		for receipts, err := range b.pusher.PushSlices(ctx, all) {
			if invalid, is := errors.AsType[*client.InvalidError](err); is {
				last := len(receipts) - 1
				b.refuse(jobs[last].line, invalid.Err)
				jobs = slices.Delete(jobs, last, last+1)
				break
			}
			if failed, is := errors.AsType[*client.BulkError](err); is {
				err = failed.Err // the summary has its numbers
			}
			// If this Redis has never replied, the address may be wrong, so it is not worth waiting for.
			receipts, err = persist(ctx, b.cmd, b.pusher, b.flags.repeatFor, receipts, err, b.queued+b.duplicates > 0)
			b.report(jobs, receipts)
			jobs = jobs[len(receipts):]
			if err != nil {
				return err
			}
			if err := outputOf(b.cmd).failure(); err != nil { // the lost jids would leave these lines unknown
				return fmt.Errorf("%w; nothing after line %d was pushed", err, b.through)
			}
		}
	}
	return nil
}

// report counts and prints receipts.
func (b *bulk) report(jobs []jobLine, receipts []client.Receipt) {
	for i, receipt := range receipts {
		line := jobs[i].line
		b.through = line
		b.queues.note(receipt)
		stored, note := false, ""
		switch receipt.Status {
		case client.StatusQueued, client.StatusScheduled:
			b.queued++
			stored = true
		case client.StatusDuplicate:
			b.duplicates++
			note = "a duplicate of " + receipt.Holder
		case client.StatusUnknown:
			b.unknown++
			note = fmt.Sprintf("unknown: Redis may or may not have it (jid %s)", receipt.JID)
		default:
			b.missed++
		}
		switch {
		case stored || asJSON(b.cmd):
			printReceipt(b.cmd, receipt, line)
		case note != "":
			b.cmd.PrintErrf("line %d: %s\n", line, plain(note))
		}
	}
	b.progress(time.Now())
}

// progress reports how far the push has come, once in progressEvery.
func (b *bulk) progress(now time.Time) {
	if now.Sub(b.reportedAt) < progressEvery {
		return
	}
	b.reportedAt = now
	b.cmd.PrintErrf("%d queued, %.0f/s, %d refused so far\n",
		b.queued, float64(b.queued)/now.Sub(b.began).Seconds(), b.refused+b.duplicates)
}

// refuse reports a line that cannot be pushed.
func (b *bulk) refuse(line int, err error) {
	b.refused++
	b.cmd.PrintErrf("line %d: refused: %s\n", line, oneLine(err.Error()))
}
