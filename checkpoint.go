package belay

import (
	"context"
	"iter"

	"github.com/belayq/belay/launcher"
)

// Interrupted is what a handler returns, as it is or wrapped, to end its run because the server stops: see
// Checkpoint. The job goes back to the head of its queue at once. The run counts as neither processed nor
// failed, and uses up no retry. (ErrInterrupted is the error of a job that crashed too many servers.)
var Interrupted = launcher.Interrupted

// MaxCursor is the maximum size of a cursor as JSON, in bytes.
const MaxCursor = launcher.MaxCursor

// Checkpoint records how far the run of a long job has come, so that the job's next run goes on from there.
// Call it after each item or batch, with a cursor such as the last id that is done; if it returns an error,
// return that error.
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
// Checkpoint returns an error if the cursor cannot be written as JSON, if it exceeds MaxCursor, and outside of
// a run.
func Checkpoint(ctx context.Context, cursor any) error { return launcher.Checkpoint(ctx, cursor) }

// Resume returns the last cursor of the job's earlier runs; ok is false if there is none. Call it once, at the
// beginning of a handler. While Redis is away, it waits until ctx ends or the server begins to stop. It
// returns an error if the cursor cannot be read into a T.
func Resume[T any](ctx context.Context) (cursor T, ok bool, err error) {
	ok, err = launcher.Resume(ctx, &cursor)
	return cursor, ok, err
}

// Each calls fn for each item of a sequence, and after each item Checkpoint with the item's cursor. from
// returns the sequence: pairs of a cursor and an item, beginning after the last cursor. If resumed is false,
// there is no cursor, and the sequence begins at the first item. Each returns the first error of fn or of
// Checkpoint, or nil at the end of the sequence. The sequence must have the same order in every run.
func Each[C, T any](ctx context.Context, from func(after C, resumed bool) iter.Seq2[C, T], fn func(ctx context.Context, item T) error) error {
	after, resumed, err := Resume[C](ctx)
	if err != nil {
		return err
	}
	for cursor, item := range from(after, resumed) {
		if err := fn(ctx, item); err != nil {
			return err
		}
		if err := Checkpoint(ctx, cursor); err != nil {
			return err
		}
	}
	return nil
}

// Pages is Each for pages, such as those of an SQL query. page returns the next items after a cursor, in the
// order of their cursors, and none at the end; after is the zero C for the first page. cursor returns the
// cursor of an item. With a key that grows, a page is one query:
//
//	SELECT id, email FROM users WHERE id > $1 ORDER BY id LIMIT 500
func Pages[C, T any](ctx context.Context, page func(ctx context.Context, after C) ([]T, error), cursor func(item T) C, fn func(ctx context.Context, item T) error) error {
	var failed error
	items := func(after C, _ bool) iter.Seq2[C, T] {
		return func(yield func(C, T) bool) {
			for {
				items, err := page(ctx, after)
				if err != nil || len(items) == 0 {
					failed = err
					return
				}
				for _, item := range items {
					if after = cursor(item); !yield(after, item) {
						return
					}
				}
			}
		}
	}
	if err := Each(ctx, items, fn); err != nil {
		return err
	}
	return failed
}
