package belay

import (
	"context"
	"fmt"
	"maps"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/launcher"
)

type (
	// LSN is a position in the write-ahead log of a PostgreSQL database. 0 is none.
	LSN = dedup.LSN
	// WAL is such positions, by the names of their connections.
	WAL = dedup.WAL
)

// WALLocation has the job know how far a database must have come that it reads: where its primary stood after
// what was written before the push (wal.Current of package dedup/wal). name is the program's own for the
// database, such as "main"; at most 16 go with a job. When the push is refused as a duplicate, the job that
// holds the lock learns the position: see WALPositions.
func WALLocation(name string, position LSN) JobOption {
	return func(i *RawJob) {
		i.WAL = maps.Clone(i.WAL) // the definition's own is shared by all its jobs
		if i.WAL == nil {
			i.WAL = make(WAL)
		}
		i.WAL[name] = position
	}
}

// StampWAL makes middleware for Client.Use that gives each job the WALLocation of a database, unless it has
// one, by asking current where the primary stands. If that fails, so does the push: the job might not see
// what it is pushed for. It costs a question for each job, in a bulk as well.
func StampWAL(name string, current func(ctx context.Context) (LSN, error)) PushMiddleware {
	return func(ctx context.Context, i *RawJob) error {
		if i.WAL[name] != 0 {
			return nil
		}
		position, err := current(ctx)
		if err != nil {
			return fmt.Errorf("stamp with the position of %s: %w", name, err)
		}
		WALLocation(name, position)(i)
		return nil
	}
}

// WALPositions is how far the databases must have come that the run reads to which ctx belongs: of each
// connection the latest of the positions with which the job was pushed and those of the duplicates that were
// refused for its sake before the run. It has no entry, which is 0, for a connection without a position. Pass
// one to wal.Wait before reading a replica.
//
// Only a job that was itself pushed with some position is certain to learn those of its duplicates, and a
// lock that ran out or was released by an operator before the run took them along.
func WALPositions(ctx context.Context) WAL { return launcher.WAL(ctx) }
