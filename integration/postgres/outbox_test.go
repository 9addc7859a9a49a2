package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib" // the other driver of database/sql
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/contrib/outbox"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/slowlink"
	"github.com/belayq/belay/job"
)

// A shop is a program's database with an outbox, and the Redis that its jobs go to.
type shop struct {
	*testing.T
	server *server
	db     *sql.DB
	dsn    string
	redis  *drivertest.Server
	client *belay.Client
	box    *outbox.Outbox
	said   said
}

// said is what an outbox has logged so far.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// newServer starts a server that has no replica.
func newServer(t *testing.T) *server {
	t.Helper()
	p := install(t)
	p.run(t, "initdb", "-D", "primary", "-U", "belay", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	return p.serve(t, "primary")
}

// newShop makes a database of its own, to which it connects by a driver of database/sql.
func newShop(t *testing.T, server *server, driver string) *shop {
	t.Helper()
	server.do(t, "CREATE DATABASE shop_"+driver)
	s := &shop{T: t, server: server, redis: drivertest.Start(t)}
	s.dsn = fmt.Sprintf("host=127.0.0.1 port=%s user=belay dbname=shop_%s sslmode=disable connect_timeout=5", server.port, driver)
	var err error
	s.db, err = sql.Open(driver, s.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.db.Close() })
	for range 2 { // the second time it changes nothing
		s.do(outbox.Schema)
	}
	s.client, err = belay.Open(t.Context(), s.redis.URL(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.client.Close() })
	s.box, err = outbox.New(s.client, outbox.Config{MaxInterval: 50 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&s.said, nil))})
	require.NoError(t, err)
	return s
}

func (s *shop) do(statement string) {
	s.Helper()
	_, err := s.db.ExecContext(s.Context(), statement)
	require.NoError(s, err, statement)
}

// number is the answer of a query that is one.
func (s *shop) number(query string) (n int) {
	s.Helper()
	require.NoError(s, s.db.QueryRowContext(s.Context(), query).Scan(&n), query)
	return n
}

var order = belay.Define[string]("Order")

// insert writes a job in a transaction of its own.
func (s *shop) insert(name string, options ...belay.JobOption) belay.Receipt {
	s.Helper()
	receipts, err := s.box.Insert(s.Context(), s.db, order.Job(name, options...))
	require.NoError(s, err)
	return receipts[0]
}

// relays runs a relay until the test ends, or stop is called.
func (s *shop) relays() (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	done := make(chan error, 1)
	go func() { done <- s.box.Run(ctx, s.db) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(s, <-done)
	})
	s.Cleanup(stop)
	return stop
}

// queue is the jobs in the default queue, in the order in which they were pushed.
func (s *shop) queue() []*job.Job { return s.jobsIn("default") }

func (s *shop) jobsIn(queue string) (jobs []*job.Job) {
	s.Helper()
	value, err := s.redis.Do(context.WithoutCancel(s.Context()), "LRANGE", "queue:"+queue, "0", "-1")
	require.NoError(s, err)
	items, _ := value.([]any)
	slices.Reverse(items)
	for _, item := range items {
		payload, _ := item.(string)
		parsed, err := job.Parse(payload)
		require.NoError(s, err)
		jobs = append(jobs, parsed)
	}
	return jobs
}

// names are the arguments of the jobs in the queue.
func (s *shop) names() []string { return s.namesIn("default") }

func (s *shop) namesIn(queue string) (names []string) {
	s.Helper()
	for _, j := range s.jobsIn(queue) {
		name, err := order.Args(j)
		require.NoError(s, err)
		names = append(names, name)
	}
	return names
}

// drained waits until everything is pushed, and nothing is left to delete.
func (s *shop) drained() {
	s.Helper()
	eventually(s.T, "the outbox to be empty", func() bool { return s.number("SELECT count(*) FROM belay_outbox") == 0 })
}

// holder is the pid of the session that relays, and the name of its program; 0 for none.
func (s *shop) holder() (pid int, program string) {
	err := s.server.QueryRowContext(context.WithoutCancel(s.Context()), `SELECT a.pid, a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE l.locktype = 'advisory' AND l.granted AND a.datname = substring($1 from 'dbname=(\w+)')`, s.dsn).Scan(&pid, &program)
	if err != nil {
		return 0, ""
	}
	return pid, program
}

func TestOutbox(t *testing.T) {
	server := newServer(t)
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			s := newShop(t, server, driver)
			for _, promise := range []struct {
				name string
				keep func(s *shop)
			}{
				{"pushes what was committed, and nothing that was rolled back", committed},
				{"takes pgx' own transactions, connections and pools", native},
				{"takes what comes with a late commit", late},
				{"keeps the order, the middleware's changes and the times of jobs", complete},
				{"pushes large jobs in several parts", large},
				{"decides about duplicates when it pushes", unique},
				{"repeats a claim whose rows it could not delete", repeats},
				{"waits for Redis, and for the database", outages},
				{"pushes all the same when the database goes back in time", restored},
				{"pushes over a slow link, in parts that it carries", overASlowLink},
				{"gets through with a claim that is large for a slow link", largeClaim},
				{"lets only the jobs of a queue wait that Redis refuses", oneRefused},
				{"withdraws what Redis refuses before it claims it anew", withdrawn},
				{"says that it works again when it does, not when another relay has the lock", otherHolder},
				{"pushes what waits, and returns", relayed},
				{"takes jobs from a program that started while Redis is away", startedEarly},
				{"has one relay at a time", alone},
				{"pushes each job once though several relays are at work", several},
			} {
				t.Run(promise.name, func(t *testing.T) {
					kept := s.T
					s.T = t
					defer func() { s.T = kept }()
					_, err := s.redis.Do(t.Context(), "FLUSHALL")
					require.NoError(t, err)
					promise.keep(s)
				})
			}
		})
	}
}

func committed(s *shop) {
	s.relays()
	for n, commit := range []bool{true, false, true, false} {
		tx, err := s.db.BeginTx(s.Context(), nil)
		require.NoError(s, err)
		_, err = s.box.Insert(s.Context(), tx, order.Job(fmt.Sprint(n)))
		require.NoError(s, err)
		if commit {
			require.NoError(s, tx.Commit())
		} else {
			require.NoError(s, tx.Rollback())
		}
	}
	conn, err := s.db.Conn(s.Context())
	require.NoError(s, err)
	_, err = s.box.Insert(s.Context(), conn, order.Job("conn"))
	require.NoError(s, err)
	require.NoError(s, conn.Close())
	s.insert("db")
	none, err := s.box.Insert(s.Context(), s.db)
	require.NoError(s, err)
	require.Empty(s, none)
	s.drained()
	require.Equal(s, []string{"0", "2", "conn", "db"}, s.names())
}

func native(s *shop) {
	pool, err := pgxpool.New(s.Context(), s.dsn)
	require.NoError(s, err)
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	ctx, stop := context.WithCancel(s.Context())
	done := make(chan error, 1)
	go func() { done <- s.box.Run(ctx, db) }()
	defer func() {
		stop()
		require.NoError(s, <-done)
	}()
	for n, commit := range []bool{true, false, true} {
		tx, err := pool.Begin(s.Context())
		require.NoError(s, err)
		later := order.Job(fmt.Sprint(n, " later"), belay.In(time.Hour)) // due_at is not NULL
		receipts, err := s.box.Insert(s.Context(), outbox.Pgx(tx), order.Job(fmt.Sprint(n)), later)
		require.NoError(s, err)
		require.Len(s, receipts, 2)
		if commit {
			require.NoError(s, tx.Commit(s.Context()))
		} else {
			require.NoError(s, tx.Rollback(s.Context()))
		}
	}
	conn, err := pgx.Connect(s.Context(), s.dsn)
	require.NoError(s, err)
	_, err = s.box.Insert(s.Context(), outbox.Pgx(conn), order.Job("conn"))
	require.NoError(s, err)
	require.NoError(s, conn.Close(s.Context()))
	_, err = s.box.Insert(s.Context(), outbox.Pgx(conn), order.Job("closed"))
	require.ErrorContains(s, err, "insert into the outbox")
	_, err = s.box.Insert(s.Context(), outbox.Pgx(pool), order.Job("pool"))
	require.NoError(s, err)
	s.drained()
	require.Equal(s, []string{"0", "2", "conn", "pool"}, s.names())
	scheduled, err := s.redis.Do(s.Context(), "ZCARD", "schedule")
	require.NoError(s, err)
	require.Equal(s, int64(2), scheduled)
}

func late(s *shop) {
	tx, err := s.db.BeginTx(s.Context(), nil)
	require.NoError(s, err)
	_, err = s.box.Insert(s.Context(), tx, order.Job("late"))
	require.NoError(s, err)
	s.relays()
	s.insert("early")
	s.drained()
	require.Equal(s, []string{"early"}, s.names())
	require.NoError(s, tx.Commit())
	s.drained()
	require.Equal(s, []string{"early", "late"}, s.names())
}

func complete(s *shop) {
	type tenant struct{}
	tenantClient, err := belay.Open(s.Context(), s.redis.URL(), nil)
	require.NoError(s, err)
	defer func() { _ = tenantClient.Close() }()
	tenantClient.Use("tenant", func(ctx context.Context, j *belay.RawJob) error {
		if len(j.Args) > 0 && j.Args[0] == "refused" {
			return belay.Refuse("not today")
		}
		belay.Meta("tenant", ctx.Value(tenant{}).(string))(j)
		return nil
	})
	box, err := outbox.New(tenantClient, outbox.Config{})
	require.NoError(s, err)
	ctx := context.WithValue(s.Context(), tenant{}, "acme")
	var jobs []belay.RawJob
	var names []string
	for n := range 2500 { // several statements of Insert, and several claims
		names = append(names, fmt.Sprint(n))
		jobs = append(jobs, order.Job(names[n]))
	}
	at := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	jobs = append(jobs, client.RawJob{Class: "Order", Args: []any{"refused"}}, order.Job("later", belay.At(at)), order.Job("now", belay.At(time.Now().Add(-time.Hour))))
	receipts, err := box.Insert(ctx, s.db, jobs...)
	require.NoError(s, err)
	require.Equal(s, belay.StatusRefused, receipts[2500].Status)
	require.Equal(s, belay.StatusPrepared, receipts[2501].Status)

	s.relays()
	s.drained()
	require.True(s, slices.Equal(append(names, "now"), s.names()), "pushed in another order, or not once: %v", len(s.names()))
	for i, j := range s.queue()[:2500] {
		require.Equal(s, map[string]string{"tenant": "acme"}, j.Meta())
		require.Equal(s, receipts[i].JID, j.JID())
	}
	score, err := s.redis.Do(s.Context(), "ZRANGE", "schedule", "0", "-1", "WITHSCORES")
	require.NoError(s, err)
	require.Len(s, score, 2)
	due, err := strconv.ParseFloat(score.([]any)[1].(string), 64)
	require.NoError(s, err)
	require.InDelta(s, float64(at.UnixMicro())/1e6, due, 2e-6)

	_, err = box.Insert(ctx, s.db, belay.RawJob{})
	var invalid *client.InvalidError
	require.ErrorAs(s, err, &invalid)
}

func large(s *shop) {
	for n := range 12 {
		s.insert(fmt.Sprint(n) + strings.Repeat("x", 1_000_000))
	}
	s.relays()
	s.drained()
	var first []string
	for _, name := range s.names() {
		first = append(first, strings.TrimRight(name, "x"))
	}
	require.Equal(s, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"}, first)
}

// through makes the outbox reach its Redis over a link.
func (s *shop) through(speed slowlink.Speed) {
	s.Helper()
	link := slowlink.New(s.T, s.redis.Addr(), speed)
	slow, err := belay.Open(s.Context(), link.URL(), nil)
	require.NoError(s, err)
	before := s.box
	s.box, err = outbox.New(slow, outbox.Config{MaxInterval: 50 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&s.said, nil))})
	require.NoError(s, err)
	s.Cleanup(func() {
		_ = slow.Close()
		s.box = before
	})
}

// slow is a link on which a call of 4 MiB takes 17 s.
var slow = slowlink.Speed{RoundTrip: 50 * time.Millisecond, BitsPerSecond: 2 * slowlink.Mbit}

// arrived waits until so many jobs are in the queue and the outbox is empty, for at most half a minute.
func (s *shop) arrived(jobs int) {
	s.Helper()
	began := time.Now()
	for len(s.queue()) < jobs || s.number("SELECT count(*) FROM belay_outbox") > 0 {
		require.Less(s, time.Since(began), 45*time.Second, "%d of %d jobs are in their queue: %s", len(s.queue()), jobs, s.said.String())
		time.Sleep(50 * time.Millisecond)
	}
}

func overASlowLink(s *shop) {
	var jobs []belay.RawJob
	for n := range 200 {
		jobs = append(jobs, order.Job(fmt.Sprint(n)+strings.Repeat("x", 15_000)))
	}
	_, err := s.box.Insert(s.Context(), s.db, jobs...)
	require.NoError(s, err)
	s.through(slow)
	s.relays()
	eventually(s.T, "the first jobs", func() bool { return len(s.queue()) > 0 })
	require.Positive(s, s.number("SELECT count(*) FROM belay_outbox"), "they come in parts")
	s.arrived(200)
}

// A relay with a fast link made the claim, and PostgreSQL does not take the one with the slow link for frozen.
func largeClaim(s *shop) {
	var jobs []belay.RawJob
	for n := range 4 {
		jobs = append(jobs, order.Job(fmt.Sprint(n)+strings.Repeat("x", 1_000_000)))
	}
	_, err := s.box.Insert(s.Context(), s.db, jobs...)
	require.NoError(s, err)
	s.do("UPDATE belay_outbox_claim SET number = number + 1, mark = 'large', ids = ARRAY (SELECT id FROM belay_outbox)")
	s.through(slow)
	s.relays()
	var first int
	eventually(s.T, "a relay", func() bool { first, _ = s.holder(); return first != 0 })
	s.arrived(4)
	last, _ := s.holder()
	require.Equal(s, first, last)
}

func oneRefused(s *shop) {
	before := s.said.String()
	_, err := s.redis.Do(s.Context(), "SET", "queue:odd", "a string")
	require.NoError(s, err)
	s.insert("first", belay.Queue("odd"))
	for n := range 3 {
		s.insert(fmt.Sprint(n))
		s.insert(fmt.Sprint(n), belay.Queue("odd"))
	}
	const nul, slashed = "a NUL: \x00\x00", `no NUL: \u0000`
	s.insert(nul)
	s.insert(slashed, belay.Queue(`odd\u0000`))
	stop := s.relays()
	s.arrivedBeside([]string{"0", "1", "2", nul}, 4)
	require.Equal(s, []string{slashed}, s.namesIn(`odd\u0000`))
	s.insert("3")
	s.insert("3", belay.Queue("odd"))
	s.arrivedBeside([]string{"0", "1", "2", nul, "3"}, 5)
	logged := strings.TrimPrefix(s.said.String(), before)
	require.Regexp(s, `queue refused.* queue=odd key=queue:odd .*WRONGTYPE`, logged)
	require.Equal(s, 1, strings.Count(logged, "queue refused"), logged)
	idle := s.number("SELECT number FROM belay_outbox_claim")
	time.Sleep(200 * time.Millisecond)
	require.Equal(s, idle, s.number("SELECT number FROM belay_outbox_claim"), "a relay without work makes no claims")

	_, err = s.redis.Do(s.Context(), "DEL", "queue:odd")
	require.NoError(s, err)
	stop() // another relay tries at once
	s.relays()
	s.drained()
	require.Equal(s, []string{"first", "0", "1", "2", "3"}, s.namesIn("odd"))
}

// arrivedBeside waits until these jobs are in the default queue, and holds that so many wait in the outbox.
func (s *shop) arrivedBeside(names []string, waiting int) {
	s.Helper()
	eventually(s.T, "the other queue's jobs", func() bool { return slices.Equal(names, s.names()) })
	eventually(s.T, "their rows to be deleted", func() bool { return s.number("SELECT count(*) FROM belay_outbox") == waiting })
}

// A request of a claim that was refused meanwhile arrives after the jobs were claimed anew.
func withdrawn(s *shop) {
	before := s.said.String()
	_, err := s.redis.Do(s.Context(), "SET", "queue:odd", "a string")
	require.NoError(s, err)
	s.insert("a", belay.Queue("odd"))
	s.insert("b", belay.Queue("odd"))
	s.do("UPDATE belay_outbox_claim SET number = number + 1, mark = 'late', ids = ARRAY (SELECT id FROM belay_outbox)")
	var late client.IdempotencyKey
	require.NoError(s, s.db.QueryRowContext(s.Context(), "SELECT 'outbox:' || scope, number, mark FROM belay_outbox_claim").Scan(&late.Scope, &late.Number, &late.Mark))
	var payload string
	require.NoError(s, s.db.QueryRowContext(s.Context(), "SELECT payload FROM belay_outbox ORDER BY id LIMIT 1").Scan(&payload))
	stop := s.relays()
	eventually(s.T, "the refusal", func() bool { return strings.Contains(strings.TrimPrefix(s.said.String(), before), "key=queue:odd") })
	_, err = s.redis.Do(s.Context(), "DEL", "queue:odd")
	require.NoError(s, err)
	_, err = s.client.PushPrepared(s.Context(), late, []client.Prepared{{Payload: payload}})
	require.ErrorIs(s, err, client.ErrStale)
	stop()

	// A relay that was killed before it claimed them anew leaves the withdrawn claim.
	s.do("UPDATE belay_outbox_claim SET number = " + fmt.Sprint(late.Number) + ", mark = 'late', ids = ARRAY (SELECT id FROM belay_outbox)")
	s.relays()
	s.drained()
	require.Equal(s, []string{"a", "b"}, s.namesIn("odd"))
	require.NotContains(s, strings.TrimPrefix(s.said.String(), before), "back in time")
}

func unique(s *shop) {
	first := s.insert("same", belay.Unique(belay.UntilExecuted))
	second := s.insert("same", belay.Unique(belay.UntilExecuted))
	require.Equal(s, []client.Status{client.StatusPrepared, client.StatusPrepared}, []client.Status{first.Status, second.Status})
	s.relays()
	s.drained()
	require.Equal(s, first.JID, s.queue()[0].JID())
	require.Len(s, s.queue(), 1)
}

// What Redis keeps of a claim is there for good, so a week between the two attempts would change nothing.
func repeats(s *shop) {
	s.do(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$`)
	s.do(`CREATE TRIGGER refuse BEFORE DELETE ON belay_outbox FOR EACH ROW EXECUTE FUNCTION refuse()`)
	s.insert("once")
	stop := s.relays()
	eventually(s.T, "the job to be pushed", func() bool { return len(s.names()) == 1 })
	errors := func() int { return strings.Count(s.said.String(), "not now") }
	eventually(s.T, "the error", func() bool { return errors() > 0 })
	stop()
	before := errors()
	s.relays()
	eventually(s.T, "the next relay's error", func() bool { return errors() > before })
	require.Equal(s, 1, s.number("SELECT count(*) FROM belay_outbox"))
	s.do("DROP TRIGGER refuse ON belay_outbox")
	s.drained()
	require.Equal(s, []string{"once"}, s.names())
	eventually(s.T, "the end of the error", func() bool { return strings.Contains(s.said.String(), "works again") })
}

func outages(s *shop) {
	s.relays()
	s.insert("before")
	s.drained()
	s.redis.Stop()
	s.insert("while Redis is silent")
	time.Sleep(200 * time.Millisecond)
	s.redis.Cont()
	s.drained()
	maxmemory := func(bytes string) {
		_, err := s.redis.Do(s.Context(), "CONFIG", "SET", "maxmemory", bytes)
		require.NoError(s, err)
	}
	maxmemory("1")
	s.insert("while Redis is full")
	eventually(s.T, "the error", func() bool { return strings.Contains(s.said.String(), "out of memory") })
	require.Equal(s, 1, s.number("SELECT count(*) FROM belay_outbox"))
	maxmemory("0")
	s.drained()
	for n := range 3 {
		_, err := s.server.ExecContext(s.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname <> 'postgres'")
		require.NoError(s, err)
		eventually(s.T, "a new connection", func() bool { return s.db.PingContext(s.Context()) == nil })
		s.insert(fmt.Sprint("after the end of connection ", n))
	}
	s.drained()
	require.Equal(s, []string{"before", "while Redis is silent", "while Redis is full", "after the end of connection 0", "after the end of connection 1",
		"after the end of connection 2"}, s.names())
}

// A relay that fails gives up the lock, and the other relay that has it then may do no better. Here the test is
// the other relay.
func otherHolder(s *shop) {
	before := s.said.String()
	logged := func(line string) int { return strings.Count(strings.TrimPrefix(s.said.String(), before), line) }
	other, err := s.db.Conn(s.Context())
	require.NoError(s, err)
	defer func() { _ = other.Close() }()
	lock := func(what string) {
		_, err := other.ExecContext(s.Context(), "SELECT "+what+"('belay_outbox'::regclass::oid::int4, 7311)")
		require.NoError(s, err)
	}
	maxmemory := func(bytes string) {
		_, err := s.redis.Do(s.Context(), "CONFIG", "SET", "maxmemory", bytes)
		require.NoError(s, err)
	}
	maxmemory("1")
	s.insert("while Redis is full")
	s.relays()
	eventually(s.T, "the error", func() bool { return logged("relay failed") == 1 })
	lock("pg_advisory_lock")
	for range 3 { // the relay finds the lock taken
		now := s.number("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
		eventually(s.T, "the next attempt", func() bool {
			return s.number(fmt.Sprint(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
				AND query ~ 'attempt|SELECT number' AND pid <> pg_backend_pid() AND extract(epoch FROM query_start) * 1000000 > `, now)) > 0
		})
	}
	require.Equal(s, []int{1, 0}, []int{logged("relay failed"), logged("works again")}, s.said.String())
	maxmemory("0")
	require.NoError(s, s.box.Relay(s.Context(), s.db)) // it needs no lock
	eventually(s.T, "the end of the error", func() bool { return logged("works again") == 1 })

	// After a failure of the database, it is enough that the database says who has the lock.
	lock("pg_advisory_unlock")
	var holder int
	eventually(s.T, "the relay", func() bool { holder, _ = s.holder(); return holder != 0 })
	got := make(chan error, 1)
	go func() {
		_, err := other.ExecContext(context.WithoutCancel(s.Context()), "SELECT pg_advisory_lock('belay_outbox'::regclass::oid::int4, 7311)")
		got <- err
	}()
	eventually(s.T, "the test to wait for the lock", func() bool {
		return s.number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == 1
	})
	_, err = s.server.ExecContext(s.Context(), "SELECT pg_terminate_backend($1)", holder)
	require.NoError(s, err)
	require.NoError(s, <-got)
	eventually(s.T, "the next error", func() bool { return logged("relay failed") == 2 })
	eventually(s.T, "its end", func() bool { return logged("works again") == 2 })
	lock("pg_advisory_unlock")
}

func relayed(s *shop) {
	require.NoError(s, s.box.Relay(s.Context(), s.db))
	var want []string
	for n := range 300 { // two claims
		want = append(want, fmt.Sprint(n))
		s.insert(want[n])
	}
	s.insert("refused", belay.Queue("odd"))
	_, err := s.redis.Do(s.Context(), "SET", "queue:odd", "a string")
	require.NoError(s, err)
	require.ErrorContains(s, s.box.Relay(s.Context(), s.db), `Redis refuses the jobs of the queues ["odd"]`)
	require.Equal(s, want, s.names())
	_, err = s.redis.Do(s.Context(), "DEL", "queue:odd")
	require.NoError(s, err)

	stop := s.relays() // has the lock
	eventually(s.T, "the relay", func() bool { pid, _ := s.holder(); return pid != 0 })
	s.insert("beside the relay")
	require.NoError(s, s.box.Relay(s.Context(), s.db))
	require.Equal(s, append(want, "beside the relay"), s.names())
	require.Equal(s, []string{"refused"}, s.namesIn("odd"))
	stop()

	// A test's Kit is a client like any other.
	kit := belaytest.New(s.T)
	var ran []string
	kit.Serve(func(server *belay.Server) {
		order.Handle(server, func(_ context.Context, name string) error { ran = append(ran, name); return nil })
	})
	box, err := outbox.New(kit.Client(), outbox.Config{})
	require.NoError(s, err)
	_, err = box.Insert(s.Context(), s.db, order.Job("in a test"))
	require.NoError(s, err)
	require.NoError(s, box.Relay(s.Context(), s.db))
	kit.Drain()
	require.Equal(s, []string{"in a test"}, ran)

	ended, cancel := context.WithCancel(s.Context())
	cancel()
	require.ErrorIs(s, s.box.Relay(ended, s.db), context.Canceled)
}

// startedEarly makes its client as the package comment says.
func startedEarly(s *shop) {
	away := "redis://" + drivertest.FreeAddr(s.T) + "/0"
	_, err := belay.Open(s.Context(), away, nil)
	require.Error(s, err)
	driver, err := goredisdriver.Open(away)
	require.NoError(s, err)
	early, err := belay.NewClient(driver, nil)
	require.NoError(s, err)
	defer func() { require.NoError(s, early.Close()) }()
	box, err := outbox.New(early, outbox.Config{})
	require.NoError(s, err)
	_, err = box.Insert(s.Context(), s.db, order.Job("early"))
	require.NoError(s, err)
	require.NoError(s, s.box.Relay(s.Context(), s.db))
	require.Equal(s, []string{"early"}, s.names())
}

// A backup is restored: the claims of the database begin anew below those that Redis has seen.
func restored(s *shop) {
	stop := s.relays()
	for n := range 3 {
		s.insert(fmt.Sprint(n))
		s.drained()
	}
	stop()
	s.do("UPDATE belay_outbox_claim SET number = number - 2, mark = 'old', ids = '{}'")
	s.insert("new")
	s.relays()
	s.drained()
	require.Equal(s, []string{"0", "1", "2", "new"}, s.names())
	require.Contains(s, s.said.String(), "went back in time")
}

func alone(s *shop) {
	eventually(s.T, "the end of the relay before", func() bool { pid, _ := s.holder(); return pid == 0 })
	stop := s.relays()
	var first int
	eventually(s.T, "a relay", func() bool { first, _ = s.holder(); return first != 0 })
	s.relays()
	for range 20 {
		pid, _ := s.holder()
		require.Equal(s, first, pid)
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	s.insert("by the other")
	s.drained()
	var second int
	eventually(s.T, "the other relay", func() bool { second, _ = s.holder(); return second != 0 })
	require.NotEqual(s, first, second, "the session that had the lock is gone")
}

// Behind a pool of connections that gives each transaction another session, every relay believes that it has
// the lock. Here a function does that which hides PostgreSQL's.
func several(s *shop) {
	s.do("CREATE FUNCTION public.pg_try_advisory_lock(int, int) RETURNS bool LANGUAGE sql AS 'SELECT true'")
	s.do(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$`)
	s.db.SetMaxIdleConns(0) // the connections so far have the old path
	s.db.SetMaxIdleConns(2)
	before := s.said.String()
	var want []string
	for range 4 {
		s.relays()
	}
	for n := range 100 {
		var jobs []belay.RawJob
		for range 20 {
			jobs = append(jobs, order.Job(fmt.Sprint(n)))
		}
		receipts, err := s.box.Insert(s.Context(), s.db, jobs...)
		require.NoError(s, err)
		for _, receipt := range receipts {
			want = append(want, receipt.JID)
		}
	}
	s.drained()
	var got []string
	for _, j := range s.queue() {
		got = append(got, j.JID())
	}
	slices.Sort(want)
	slices.Sort(got)
	require.True(s, slices.Equal(want, got), "%d jobs were committed, %d are in the queue", len(want), len(got))
	require.NotContains(s, strings.TrimPrefix(s.said.String(), before), "went back in time")
	require.Zero(s, s.number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"))
}

func TestMistakesWithAnOutboxAreNamed(t *testing.T) {
	_, err := outbox.New(nil, outbox.Config{MaxInterval: time.Millisecond})
	require.ErrorContains(t, err, "client is nil")
	require.ErrorContains(t, err, "MaxInterval 1ms")
	client, err := belay.Open(t.Context(), drivertest.Redis(t).URL(), nil)
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	box, err := outbox.New(client, outbox.Config{})
	require.NoError(t, err)
	require.ErrorContains(t, box.Run(t.Context(), nil), "database is nil")
	require.ErrorContains(t, box.Relay(t.Context(), nil), "database is nil")
	var tx *sql.Tx
	for _, none := range []outbox.Execer{nil, tx, outbox.Pgx(pgx.Tx(nil))} {
		_, err = box.Insert(t.Context(), none, order.Job("a"))
		require.EqualError(t, err, "insert into the outbox: the transaction is nil; check the error of BeginTx")
	}
}
