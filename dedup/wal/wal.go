package wal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/belayq/belay/dedup"
)

// ErrUsePrimary says that a replica cannot be read for what the caller wants to see, not yet or not at all: read the primary.
var ErrUsePrimary = errors.New("belay: the replica has not replayed that far: use the primary")

// A Queryer is what is asked: a *sql.DB, or a *sql.Conn where a pool leads to several replicas, of which the one that is asked must be
// the one that is read.
type Queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Current returns the position up to which everything lies that has been committed on a primary by now, to push a job with. Ask it
// after the commit. Asked of a replica it is an error.
//
// It is where the next record will be inserted (pg_current_wal_insert_lsn). What has been written out (pg_current_wal_lsn) may
// lie before a commit that did not wait for that (synchronous_commit = off). The price is that a job may wait for a few records of
// others, too.
func Current(ctx context.Context, primary Queryer) (dedup.LSN, error) {
	var text string
	var block, segment uint64
	const query = "SELECT pg_current_wal_insert_lsn()::text, current_setting('wal_block_size')::bigint, " +
		"pg_size_bytes(current_setting('wal_segment_size'))"
	if err := primary.QueryRowContext(ctx, query).Scan(&text, &block, &segment); err != nil {
		return 0, fmt.Errorf("ask the primary for its position: %w", err)
	}
	position, err := dedup.ParseLSN(text)
	if err != nil {
		return 0, fmt.Errorf("ask the primary for its position: %w", err)
	}
	return endOfRecords(position, dedup.LSN(block), dedup.LSN(segment)), nil
}

// pageHeader is the length of what stands before the records on a page of the log, segmentHeader on the first page of a file of it.
const pageHeader, segmentHeader = 24, 40

// endOfRecords is an insert position as a replica counts. On a page to which nothing has been written yet the next record goes
// behind the page's header, but a replica that has replayed everything stands before it, and would stand there until the primary
// writes again.
func endOfRecords(position, block, segment dedup.LSN) dedup.LSN {
	switch {
	case segment > 0 && position%segment == segmentHeader:
		return position - segmentHeader
	case block > 0 && position%block == pageHeader:
		return position - pageHeader
	}
	return position
}

const (
	// A replica beside its primary has a commit within a millisecond or two, and one that lags does so for much longer: so the first
	// questions come soon, and later ones cost it little.
	leastPause, mostPause = 2 * time.Millisecond, 100 * time.Millisecond
)

// Wait returns nil as soon as the replica has replayed its primary's log up to this position, so that a query begun after that
// sees what was written before. It asks once, and then again and again for so long as within says. A server that is no
// replica (any more) has it at once, and so has everyone a position of 0, which is none.
//
// The error is ErrUsePrimary when the time is over, or when the replica does not answer, with the reason; when ctx has ended, it
// is ctx's own. A transaction that has begun before Wait may see what it saw then.
func Wait(ctx context.Context, replica Queryer, position dedup.LSN, within time.Duration) error {
	if position == 0 {
		return nil
	}
	// Its own end, because a server that does not answer must not hold up the job for longer than one that does.
	asking, cancel := context.WithTimeout(ctx, max(within, leastAnswer))
	defer cancel()
	deadline := time.Now().Add(within)
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		at, err := replayed(asking, replica, position)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("%w: ask the replica: %w", ErrUsePrimary, err)
		case at >= position:
			return nil
		}
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("%w: it is at %v, and %v is wanted", ErrUsePrimary, at, position)
		}
		if err := sleep(ctx, min(pause, left)); err != nil {
			return err
		}
	}
}

// leastAnswer is what the one question may take that is asked in any case: within may be 0.
const leastAnswer = time.Second

// replayed is how far a server has come: a replica to what it has replayed, and one that is none to wherever is asked for.
func replayed(ctx context.Context, server Queryer, wanted dedup.LSN) (dedup.LSN, error) {
	var replica bool
	var text sql.NullString
	const query = "SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn()::text"
	if err := server.QueryRowContext(ctx, query).Scan(&replica, &text); err != nil {
		return 0, err
	}
	if !replica {
		return wanted, nil
	}
	if !text.Valid {
		return 0, nil // it has replayed nothing yet
	}
	return dedup.ParseLSN(text.String)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
