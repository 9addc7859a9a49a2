package belay

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/belayq/belay/launcher"
)

// Interrupted is what a handler returns, as it is or wrapped, to end its run because the server stops: see
// Checkpoint. The job goes back to the head of its queue at once. The run counts as neither processed nor
// failed, and uses up no retry.
var Interrupted = launcher.Interrupted

// Checkpoint records how far the run of a long job has come, so that the job's next run goes on from there.
// Call it after each item or batch, with a cursor that says where the next run begins, such as the id of the
// next item; if it returns an error, return that error.
//
//   - The cursor is written to Redis when the last write was SaveInterval ago, and with the end of the run. If
//     the server is killed, the job's next run repeats at most the items of that interval, and skips none.
//   - When the server begins to stop, Checkpoint returns Interrupted: the job goes on elsewhere, at once. When
//     ctx ends, it returns the cause.
//   - If the server has lost the job, Checkpoint writes nothing, ends ctx and returns ErrOwnershipLost.
//   - During an outage of Redis it returns nil, and a later call, or the end of the run, writes the cursor.
//
// The cursor ends with the job. A retry and a requeue keep it, and so does the dead set, for thirty days: a
// job that an operator retries continues from its cursor. Only crashes since the cursor last advanced count
// towards MaxInterruptions.
//
// The cursor is stored where Sidekiq's iterable jobs store theirs. Sidekiq's cursor names the next item. If
// yours does too, a job that was interrupted in one language goes on in the other. If yours names the last item
// that is done, Ruby repeats an item and Go skips one.
//
// Checkpoint returns an error if the cursor cannot be written as JSON, if that exceeds 64 KiB, and outside of a
// run. A string that is not UTF-8 cannot be written as JSON: make it a []byte.
func Checkpoint(ctx context.Context, cursor any) error { return launcher.Checkpoint(ctx, cursor) }

// Resume returns the last cursor of the job's earlier runs; ok is false if there is none. Call it once, at the
// beginning of a handler. During an outage of Redis it waits until Redis answers; if ctx ends or the server
// begins to stop before that, it returns an error. It also returns one if the cursor cannot be read into a T.
func Resume[T any](ctx context.Context) (cursor T, ok bool, err error) {
	ok, err = launcher.Resume(ctx, &cursor)
	return cursor, ok, err
}

// Each calls fn for every item of a sequence. Before every item but the first, it calls Checkpoint with the
// item's cursor. from returns the sequence, pairs of a cursor and an item. It starts at the item whose cursor
// is begin or, if that item no longer exists, at the next one. If resumed is false, there is no cursor, and the
// sequence starts at its first item. Each returns the first error of fn or of Checkpoint, the cause of ctx's
// end, or nil at the end of the sequence. The sequence must have the same order in every run.
//
// The cursor is the item to begin with, as in Sidekiq: no item is skipped or repeated where a job that was
// interrupted in Ruby goes on in Go, and the other way round.
func Each[C, T any](ctx context.Context, from func(begin C, resumed bool) iter.Seq2[C, T], fn func(ctx context.Context, item T) error) error {
	begin, resumed, err := Resume[C](ctx)
	if err != nil {
		return err
	}
	first := true
	for cursor, item := range from(begin, resumed) {
		if !first {
			if err := Checkpoint(ctx, cursor); err != nil {
				return err
			}
		}
		if err := fn(ctx, item); err != nil {
			return err
		}
		first = false
	}
	// A sequence may have ended because ctx has, in the middle of the items.
	return context.Cause(ctx)
}

// Pages is Each for pages, such as those of an SQL query. page returns the next items from a cursor on, with
// the cursor's own item first, in the order of their cursors; from is the zero C for the first page. It must
// return at least two items unless fewer are left. cursor returns the cursor of an item. No two items may have
// the same cursor; Pages returns an error if two successive ones have. With a key that grows, a page is one
// query:
//
//	SELECT id, email FROM users WHERE id >= $1 ORDER BY id LIMIT 500
func Pages[C comparable, T any](ctx context.Context, page func(ctx context.Context, from C) ([]T, error), cursor func(item T) C, fn func(ctx context.Context, item T) error) error {
	from, _, err := Resume[C](ctx)
	if err != nil {
		return err
	}
	var held []T // the last item of a page, which is done when the next page is there
	for {
		items, err := page(ctx, from)
		if err != nil {
			return err
		}
		if len(held) > 0 && len(items) > 0 && cursor(items[0]) == from {
			items = items[1:]
		}
		end := len(items) == 0
		items = slices.Concat(held, items)
		for n, item := range items {
			before := from
			from = cursor(item)
			if n > 0 {
				if from == before { // the next page would begin with the first of them again, for ever
					return fmt.Errorf("belay: Pages: two items have the cursor %v: use a unique one, such as the primary key", from)
				}
				if err := Checkpoint(ctx, from); err != nil {
					return err
				}
			}
			if n == len(items)-1 && !end {
				held = items[n:]
				break
			}
			if err := fn(ctx, item); err != nil {
				return err
			}
		}
		if end {
			return context.Cause(ctx)
		}
	}
}
