package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/client"
	redis "github.com/belayq/belay/driver"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

const (
	// minInterval is the first interval between two queries of an idle relay: a shorter one would rarely find
	// more. maxInterval bounds Config.MaxInterval.
	minInterval, maxInterval = 10 * time.Millisecond, 10 * time.Second
	// standby is how often a process that does not relay tries to get the lock. PostgreSQL frees the lock at
	// once when the process of a relay ends.
	standby = time.Second
	// idleTimeout is the time after which PostgreSQL ends the session of a relay that is frozen, or whose
	// machine is gone, and frees the lock. It is above maxInterval, because an idle relay is silent for that
	// long.
	idleTimeout = 15 * time.Second
	// pingEvery is how often a relay pings PostgreSQL during a long push, so that its session does not end.
	// With a third of the timeout, one ping may be late.
	pingEvery = idleTimeout / 3
	// lastReply is how long a relay that ends waits for the reply to its push.
	lastReply = 5 * time.Second
	// retryRefused is how often the jobs of a refused queue are tried again.
	retryRefused = time.Minute
	// logEvery is how often an error that persists is logged.
	logEvery = time.Minute
	// maxPayload leaves room in lua.MaxBytes for the enqueued_at of each job. The largest payload is half
	// of that, so every job fits in a claim.
	maxPayload = lua.MaxBytes - lua.MaxItems*64
)

const (
	// The lock has two numbers: the table's own, which differs between outboxes of one database, and one drawn
	// at random. A session that gets the lock gets the timeout $1 in the same statement: a relay that is
	// frozen between two statements would keep the lock for ever.
	tryLock = `WITH attempt AS MATERIALIZED (SELECT pg_try_advisory_lock('belay_outbox'::regclass::oid::int4, 7311) AS locked)
		SELECT locked, CASE WHEN locked THEN
			set_config('idle_session_timeout', $1, false) || set_config('idle_in_transaction_session_timeout', $1, false)
		END FROM attempt`

	// One statement, so one snapshot: the claim and its jobs. A claim without jobs is one row.
	readClaim = `SELECT c.number, c.scope, c.mark, o.due_at, o.payload
		FROM belay_outbox_claim c LEFT JOIN belay_outbox o ON o.id = ANY (c.ids) ORDER BY o.id`

	// It deletes the rows of the claim $1, if $4 says that their jobs are pushed, and makes the next claim:
	// rows of the places that the filter chooses. It does nothing if there is a later claim, or nothing to do.
	// Both parts see the rows as they were before the statement.
	nextClaim = `WITH pushed AS (
			DELETE FROM belay_outbox WHERE $4::bool AND id IN (SELECT unnest(ids) FROM belay_outbox_claim WHERE number = $1)
		)
		UPDATE belay_outbox_claim c SET number = c.number + 1, mark = gen_random_uuid()::text, ids = ARRAY (
			SELECT id FROM (
				SELECT id, sum(octet_length(payload)) OVER (ORDER BY id) AS bytes, row_number() OVER (ORDER BY id) AS place
				FROM (
					SELECT id, payload FROM belay_outbox WHERE NOT ($4::bool AND id = ANY (c.ids)) AND {filter} ORDER BY id LIMIT $2::int
				) AS waiting
			) AS sized WHERE bytes <= $3::bigint OR place = 1 ORDER BY id)
		WHERE c.number = $1 AND (c.ids <> '{}' OR EXISTS (SELECT 1 FROM belay_outbox WHERE {filter}))`

	// isOneOf is the filter while Redis refuses places: whether a row's place is one of $5 must be $6.
	// PostgreSQL decodes every string of a payload to find the queue, and fails the whole statement for the
	// escape of a NUL, or of a character that its encoding lacks. Arguments may have these, so it sees no
	// escape of that kind. No queue's name has one: control characters are refused, and others are written raw.
	isOneOf = `(CASE WHEN due_at > now() THEN '' ELSE
			coalesce(regexp_replace(payload, '(?<!\\)((?:\\\\)*)\\u[0-9a-fA-F]{4}', '\1?', 'g')::json->>'queue', 'default') END
		= ANY (ARRAY (SELECT json_array_elements_text($5::json)))) = $6::bool`

	// The same jobs, in a scope that Redis has not seen.
	renewScope = `UPDATE belay_outbox_claim SET scope = gen_random_uuid()::text, number = number + 1 WHERE number = $1`
)

// Run relays jobs from the outbox in db to Redis, until ctx ends; then it returns nil. Errors do not end it:
// it logs them, and tries again. It occupies one connection of db while it relays.
func (o *Outbox) Run(ctx context.Context, db *sql.DB) error {
	if db == nil {
		return errors.New("run an outbox: the database is nil")
	}
	places := places{retryAt: make(map[string]time.Time)}
	trouble := trouble{log: o.cfg.Logger}
	for ctx.Err() == nil {
		err := o.relay(ctx, db, &places, &trouble)
		if err == nil || ctx.Err() != nil {
			wait(ctx, link.Jitter(standby))
			continue
		}
		wait(ctx, trouble.failed(err))
	}
	return nil
}

// Relay pushes the jobs that wait in the outbox in db, and returns when none is left, or with the first error.
// It is for tests and for programs that end: a job of a transaction that is committed later is not waited for.
// It needs no lock, so it may be called beside Run, and each job is pushed once all the same.
func (o *Outbox) Relay(ctx context.Context, db *sql.DB) error {
	if db == nil {
		return errors.New("relay an outbox: the database is nil")
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { _ = conn.Close() }()
	places := places{retryAt: make(map[string]time.Time)}
	for {
		moved, err := o.pass(ctx, conn, &places)
		if err != nil {
			return err
		}
		if moved {
			continue
		}
		var left bool
		switch err := conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM belay_outbox)").Scan(&left); {
		case err != nil:
			return fmt.Errorf("look for jobs: %w", err)
		case !left:
			return nil
		case len(places.retryAt) > 0:
			return fmt.Errorf("relay an outbox: Redis refuses the jobs of the queues %q", slices.Sorted(maps.Keys(places.retryAt)))
		}
		wait(ctx, minInterval) // another relay pushes them
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// relay moves jobs until there is an error. It returns nil at once if another process relays.
func (o *Outbox) relay(ctx context.Context, db *sql.DB, places *places, trouble *trouble) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { _ = conn.Close() }()
	var locked bool
	var timeouts sql.NullString
	if err := conn.QueryRowContext(ctx, tryLock, fmt.Sprintf("%dms", idleTimeout.Milliseconds())).Scan(&locked, &timeouts); err != nil {
		return fmt.Errorf("lock the outbox: %w", err)
	}
	if !locked {
		return trouble.elsewhere(ctx, conn)
	}
	// ErrBadConn makes db end the session. That frees the lock, whatever state the session is in, and no other
	// user of db gets the connection.
	defer func() { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }()
	interval := minInterval
	for {
		moved, err := o.pass(ctx, conn, places)
		switch {
		case err != nil:
			return err
		case moved:
			interval = minInterval
		default:
			wait(ctx, interval)
			interval = min(2*interval, o.cfg.MaxInterval)
		}
		trouble.over()
	}
}

// A claim is the jobs that the relay pushes as one.
type claim struct {
	key  client.IdempotencyKey
	jobs []client.Prepared
}

// pass pushes the current claim, deletes its rows and makes the next claim. It reports whether there is one.
func (o *Outbox) pass(ctx context.Context, conn *sql.Conn, places *places) (moved bool, err error) {
	current, err := read(ctx, conn)
	if err != nil {
		return false, fmt.Errorf("read the claim: %w", err)
	}
	stored := true
	if len(current.jobs) > 0 {
		var renewed bool
		if stored, renewed, err = o.offer(ctx, conn, current, places); err != nil || renewed {
			return renewed, err
		}
	}
	statement, args := nextClaim, []any{current.key.Number, lua.MaxItems, min(o.client.Page(), maxPayload), stored}
	names, only := places.filter()
	if len(names) > 0 {
		statement = strings.ReplaceAll(statement, "{filter}", isOneOf)
		list, _ := json.Marshal(names) // of plain strings
		args = append(args, string(list), only)
	} else {
		statement = strings.ReplaceAll(statement, "{filter}", "true")
	}
	result, err := conn.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, fmt.Errorf("claim jobs: %w", err)
	}
	changed, err := result.RowsAffected()
	if only && changed == 0 && err == nil { // nothing waits for this place
		places.done(names[0])
		return true, nil
	}
	return changed > 0, err
}

// offer pushes a claim, and reports whether its jobs are in Redis, or must be pushed in a renewed scope.
func (o *Outbox) offer(ctx context.Context, conn *sql.Conn, c claim, places *places) (stored, renewed bool, err error) {
	receipts, err := o.push(ctx, conn, c)
	var refused *redis.ServerError
	switch {
	case errors.Is(err, client.ErrStale):
		if stored, err = o.withdraw(ctx, c); err == nil && stored {
			return false, true, o.renew(ctx, conn, c)
		}
	case errors.As(err, &refused) && !redis.Outage(err):
		stored, err = o.refused(ctx, c, receipts, places, err)
	case err == nil:
		stored = true
		places.accepted(o, places.of(c, receipts))
	}
	if err != nil {
		return false, false, &unpushedError{c.key.Number, err}
	}
	return stored, false, nil
}

// push pushes a claim. On a slow link that may take longer than PostgreSQL keeps a silent session, so it pings
// PostgreSQL meanwhile.
func (o *Outbox) push(ctx context.Context, conn *sql.Conn, c claim) (receipts []belay.Receipt, err error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		receipts, err = o.client.PushPrepared(ctx, c.key, c.jobs)
	}()
	pings := time.NewTicker(pingEvery)
	defer pings.Stop()
	for {
		select {
		case <-ended:
			return receipts, err
		case <-pings.C:
			_ = conn.PingContext(ctx) // the next statement reports that the connection is gone
		case <-ctx.Done():
			select {
			case <-ended:
				return receipts, err
			case <-time.After(lastReply): // the next relay repeats the push
				return nil, ctx.Err()
			}
		}
	}
}

// withdraw makes sure that no delayed request can store a claim any more, and reports whether a request has
// stored it before. It pushes no jobs under the number of the claim, so it may be repeated.
func (o *Outbox) withdraw(ctx context.Context, c claim) (stored bool, err error) {
	key := c.key
	key.Mark += " withdrawn"
	_, err = o.client.PushPrepared(ctx, key, nil)
	if errors.Is(err, client.ErrStale) {
		return true, nil
	}
	return false, err
}

// refused handles a claim that Redis refuses, for example because the key of one of its queues has another
// type. Its jobs are claimed anew, those of each place in a claim of their own, so that only the jobs of the
// refused place wait.
func (o *Outbox) refused(ctx context.Context, c claim, receipts []belay.Receipt, places *places, why error) (stored bool, err error) {
	if stored, err = o.withdraw(ctx, c); stored || err != nil {
		return stored, err
	}
	in := places.of(c, receipts)
	if len(in) > 1 {
		places.isolated = in
		return false, nil
	}
	keys := lua.NewKeys(o.client.Config().Prefix)
	key := keys.Schedule()
	if in[0] != later {
		key = keys.Queue(in[0])
	}
	o.cfg.Logger.Error("outbox queue refused; its jobs wait, will retry every minute", "queue", in[0], "key", key, "jobs", len(c.jobs), "error", why.Error())
	places.done(in[0])
	places.retryAt[in[0]] = time.Now().Add(retryRefused)
	return false, nil
}

func read(ctx context.Context, conn *sql.Conn) (c claim, err error) {
	rows, err := conn.QueryContext(ctx, readClaim)
	if err != nil {
		return c, err
	}
	defer func() { _ = rows.Close() }()
	found := false
	for rows.Next() {
		var due sql.NullTime
		var payload sql.NullString
		if err := rows.Scan(&c.key.Number, &c.key.Scope, &c.key.Mark, &due, &payload); err != nil {
			return c, err
		}
		found = true
		if payload.Valid {
			c.jobs = append(c.jobs, client.Prepared{Payload: payload.String, At: due.Time})
		}
	}
	c.key.Scope = "outbox:" + c.key.Scope
	if err := rows.Err(); err != nil || found {
		return c, err
	}
	return c, errors.New("belay_outbox_claim has no row: run the Schema again")
}

// renew handles a claim that is stale for Redis although it was not withdrawn: either another relay has made
// the next claim, or the database has gone back in time. In the second case nothing shows whether these jobs
// were pushed before. They get a scope that Redis has not seen, because it is worse to lose a job than to run
// it twice.
func (o *Outbox) renew(ctx context.Context, conn *sql.Conn, c claim) error {
	result, err := conn.ExecContext(ctx, renewScope, c.key.Number)
	if err != nil {
		return fmt.Errorf("renew the scope: %w", err)
	}
	changed, err := result.RowsAffected()
	if changed > 0 {
		o.cfg.Logger.Error("outbox database went back in time; pushing its jobs, some perhaps once more", "jobs", len(c.jobs))
	}
	return err
}
