// Package outbox pushes jobs that a program writes in its own database transaction: each job of a transaction
// that is committed is pushed once, and none of one that is rolled back.
//
// Insert writes jobs into a table of the program's PostgreSQL, and Run pushes them and deletes their rows:
//
//	box, err := outbox.New(client, outbox.Config{})
//
//	tx, err := db.BeginTx(ctx, nil)
//	// ... the program's own changes ...
//	_, err = box.Insert(ctx, tx, Welcome.Job(WelcomeArgs{UserID: 42}))
//	err = tx.Commit()
//
//	err = box.Run(ctx, db) // in at least one process, until ctx ends
//
// The tables are those of Schema. The package needs PostgreSQL 14 or newer, and any driver of database/sql.
//
// # Once
//
// Run claims up to 256 rows at a time. One statement of the database gives the claim the next number and
// records the ids of its rows, so a transaction that commits late is not passed over. Run pushes the claim
// under its number: Redis stores it once, however often it is sent and by whichever process. Then one more
// statement deletes the rows and makes the next claim. A relay that is killed at any instant, or that loses a
// reply of Redis or its connection to the database, leaves its claim. The next relay repeats it without
// doubling a job, also a week later.
//
// Any number of processes may call Run. The one that has an advisory lock of the database, on a connection of
// its own, relays. When it ends, another one takes over within about a second, or after fifteen seconds if it
// is frozen or its machine is gone. The lock saves work, and no promise depends on it: two relays at once still
// push each claim once.
//
// The promise ends where PostgreSQL or Redis loses what it had confirmed. If PostgreSQL goes back in time (a
// backup is restored, or a standby takes over that lacks the last commits), jobs that were pushed since may be
// pushed again, and a log line says so. Redis keeps one small key for each outbox for good, and must not evict
// it (see belay check).
//
// A connection pool between Run and PostgreSQL must be one of sessions, not of transactions.
//
// # Cost
//
// Insert is one statement more in the transaction, and sends nothing to Redis. A claim takes two statements
// and one request to Redis. While there is nothing to push, the relay asks the database at intervals that
// double from 10 ms to Config.MaxInterval, half a second: a job that comes after a pause waits for up to that
// long. An idle relay sends two short queries each time, which is four a second, and every other process one a
// second. LISTEN would need more than database/sql.
//
// How far the relay is behind:
//
//	SELECT count(*), now() - min(inserted_at) FROM belay_outbox
//
// This package must never push a job whose transaction is not committed, delete a row whose job is not known
// to be in Redis or refused as a duplicate, or write a job's arguments into the log.
package outbox
