package wal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/belayq/belay/dedup"
)

// ErrUsePrimary means that the replica does not have the data yet, or does not answer: read the primary.
var ErrUsePrimary = errors.New("belay: the replica has not replayed that far: use the primary")

// A Queryer is a *sql.DB. If a pool leads to several replicas, use a *sql.Conn, so that the replica that
// answers is the one that is read.
type Queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Current returns a position behind everything that has been committed on the primary, to push a job with.
// Call it after the commit. It returns an error for a replica.
//
// It is the position of the next record (pg_current_wal_insert_lsn). The position that has been written out
// (pg_current_wal_lsn) may lie before a commit that did not wait for it (synchronous_commit = off). The price
// is that a job may also wait for a few records of other transactions.
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

// pageHeader is the length of the header of a page of the log, segmentHeader that of the first page of a file.
const pageHeader, segmentHeader = 24, 40

// endOfRecords converts an insert position to one that a replica reaches. On an empty page the next record
// goes behind the page's header, but a replica that has replayed everything stays before the header until the
// primary writes again.
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
	// A healthy replica has a commit within a millisecond or two, and one that lags does so for much longer.
	// So the first queries come soon, and later ones are rare.
	minPause, maxPause = 2 * time.Millisecond, 100 * time.Millisecond
)

// Wait returns nil as soon as the replica has replayed its primary's log up to this position. A query that
// begins after that sees the data. Wait queries at least once, and repeats that for the duration within. For
// a primary, and for position 0, it returns nil at once.
//
// It returns ErrUsePrimary, with the reason, when the time is over or the replica does not answer, and ctx's
// error when ctx has ended. A transaction that began before Wait may still see old data.
func Wait(ctx context.Context, replica Queryer, position dedup.LSN, within time.Duration) error {
	if position == 0 {
		return nil
	}
	// A deadline of its own: a server that does not answer must not delay the job for longer than one that
	// does.
	asking, cancel := context.WithTimeout(ctx, max(within, minAnswer))
	defer cancel()
	deadline := time.Now().Add(within)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
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
			return fmt.Errorf("%w: it is at %v, and %v is needed", ErrUsePrimary, at, position)
		}
		select {
		case <-time.After(min(pause, left)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// minAnswer is the time for the first query, which is sent even if within is 0.
const minAnswer = time.Second

// replayed returns the position that a replica has replayed, and wanted for a primary.
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
