package belay

import (
	"context"
	"fmt"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/launcher"
)

type (
	// LSN is a position in the write-ahead log of a PostgreSQL database. 0 is none.
	LSN = dedup.LSN
	// WAL maps the name of a database, as given to WALLocation, to a position. A database without a position
	// has no entry.
	WAL = dedup.WAL
)

// WALLocation stores in the job the position that a database replica must have reached before the job reads
// it: the position of the primary after the writes that preceded the push (wal.Current of package dedup/wal).
// name is the program's own name for the database, such as "main"; a job has at most 16 positions. If the
// push is refused as a duplicate, the job that holds the lock gets the position: see WALPositions.
func WALLocation(name string, position LSN) JobOption {
	return func(i *RawJob) { i.WAL = with(i.WAL, name, position) }
}

// StampWAL returns middleware for Client.Use that adds the WALLocation of a database to each job without one.
// It calls current for the position of the primary. If current fails, the push fails, because the job might
// run before the replica has its data. current is called once for each job, also in a bulk push.
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

// WALPositions returns the positions that replicas must have reached before the run of ctx reads them. For
// each connection it is the latest position of the job's own push and of the duplicates that were refused
// before the run. Pass a position to wal.Wait before reading a replica.
//
// Only a job that was itself pushed with a position is certain to get those of its duplicates. They are lost
// if the lock expires or an operator releases it before the run, and with a Key or UntilExpired, whose lock
// does not belong to the run.
func WALPositions(ctx context.Context) WAL { return launcher.WAL(ctx) }
