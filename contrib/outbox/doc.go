// Package outbox pushes jobs that a program writes in its own database transaction: each job of a committed
// transaction is pushed once, and no job of a transaction that is rolled back.
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
// A web service writes jobs while Redis is away, but belay.Open would not let it start then. Make its client
// by NewClient, which sends nothing to Redis:
//
//	driver, err := goredisdriver.Open("redis://localhost:6379/0") // package driver/goredisdriver; sends nothing
//	client, err := belay.NewClient(driver, nil)
//
// The tables are those of Schema. The package needs PostgreSQL 14 or newer, and any driver of database/sql.
//
// A program with pgx' own transactions passes outbox.Pgx(tx) to Insert, and stdlib.OpenDBFromPool(pool) of
// pgx/v5/stdlib to Run.
//
// # Once
//
// Run claims up to 256 rows at a time. One statement of the database gives the claim the next number and
// records the ids of its rows, so a transaction that commits late is not passed over. Run pushes the claim
// under its number: Redis stores it once, however often it is sent and by whichever process. Then one more
// statement deletes the rows and makes the next claim. A relay that is killed at any instant, or that loses a
// reply of Redis or its connection to the database, leaves its claim. The next relay pushes the claim again
// without doubling a job, even a week later.
//
// Any number of processes may call Run. The one that has an advisory lock of the database, on a connection of
// its own, relays. When it ends, another one takes over within about a second, or after fifteen seconds if it
// is frozen or its machine is gone. The lock only saves work: even two relays at once push each claim once.
//
// The promise does not hold if PostgreSQL or Redis loses data that it had confirmed. If PostgreSQL goes back
// in time (a backup is restored, or a standby takes over that lacks the last commits), jobs that were pushed
// since may be pushed again, and a log line says so. Redis keeps one small key for each outbox for good, and
// must not evict it (see belay check).
//
// A connection pooler between Run and PostgreSQL must use session mode, not transaction mode.
//
// # In a test
//
// Relay pushes what waits and returns, so a test needs neither Run nor a timeout. With a Kit of belaytest:
//
//	box, err := outbox.New(kit.Client(), outbox.Config{})
//	// ... call the code that inserts jobs ...
//	err = box.Relay(ctx, db)
//	kit.Drain()
//
// # Slow and refused
//
// A claim has as many bytes as the link to Redis carries well (Client.Page): 256 KiB at first, up to 4 MiB.
//
// If Redis refuses the jobs of one queue, for example because its key has another type, they stay in the
// outbox, and all others are pushed. A claim that was refused is withdrawn from Redis before its jobs are
// claimed anew, so no delayed request can store them twice. The relay tries such a queue again every minute.
//
// # Cost
//
// Insert adds one statement to the transaction, and sends nothing to Redis. A claim takes two statements and
// one request to Redis. While there is nothing to push, the relay asks the database at intervals that double
// from 10 ms to Config.MaxInterval, half a second: a job that comes after a pause waits for up to that long.
// An idle relay sends two short queries each time, which is four a second, and every other process one a
// second. LISTEN was rejected, because database/sql does not support it.
//
// How far the relay is behind:
//
//	SELECT count(*), now() - min(inserted_at) FROM belay_outbox
//
// This package must never
//   - push a job whose transaction is not committed,
//   - delete a row whose job is not known to be in Redis or refused as a duplicate,
//   - write a job's arguments into the log.
package outbox
