package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay"
)

// Schema creates the tables, where they are missing, in the first schema of the search_path. Run it once, in a
// migration. It is several statements, for Exec without arguments.
//
// The database user of Insert needs INSERT on belay_outbox. The user of Run also needs SELECT and DELETE on
// it, and SELECT and UPDATE on belay_outbox_claim. Every pair of tables is an outbox of its own.
const Schema = `
CREATE TABLE IF NOT EXISTS belay_outbox (
	id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	inserted_at timestamptz NOT NULL DEFAULT now(),
	due_at      timestamptz,    -- NULL: now
	payload     text NOT NULL   -- the job
);

-- One row: the claim that is being pushed. The scope is drawn once, so that no two databases share one.
CREATE TABLE IF NOT EXISTS belay_outbox_claim (
	only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
	scope    text   NOT NULL DEFAULT gen_random_uuid()::text,
	number   bigint NOT NULL DEFAULT 0,
	mark     text   NOT NULL DEFAULT '',
	ids      bigint[] NOT NULL DEFAULT '{}'
);
INSERT INTO belay_outbox_claim DEFAULT VALUES ON CONFLICT DO NOTHING;
`

// Config configures New. The zero value is ready.
type Config struct {
	// MaxInterval is the maximum time between two queries of an idle relay, from 10 ms to 10 s. Default: 500
	// ms.
	MaxInterval time.Duration
	// Logger receives what operators should know of the relay. Default: slog.Default.
	Logger *slog.Logger
}

// An Outbox writes jobs into a database, and relays them to Redis. Its methods may be called from any
// goroutine.
type Outbox struct {
	client *belay.Client
	cfg    Config
}

// New returns an Outbox whose jobs get the middleware and the checks of client, and are pushed by it. It opens
// nothing. The error names everything that is wrong with its arguments.
func New(client *belay.Client, cfg Config) (*Outbox, error) {
	if cfg.MaxInterval == 0 {
		cfg.MaxInterval = 500 * time.Millisecond
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	var errs []error
	if client == nil {
		errs = append(errs, errors.New("the client is nil; check the error of Open"))
	}
	if cfg.MaxInterval < minInterval || cfg.MaxInterval > maxInterval {
		errs = append(errs, fmt.Errorf("MaxInterval %v: it must be between %v and %v", cfg.MaxInterval, minInterval, maxInterval))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("configure an outbox: %w", err)
	}
	return &Outbox{client: client, cfg: cfg}, nil
}

// An Execer is a transaction: *sql.Tx, or *sql.Conn and *sql.DB, whose statements are transactions of their
// own. Pgx makes one of pgx' types.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Pgx returns an Execer for a transaction of pgx itself, a pgx.Tx, or for a *pgx.Conn or *pgxpool.Pool, whose
// statements are transactions of their own:
//
//	receipts, err := box.Insert(ctx, outbox.Pgx(tx), Welcome.Job(args))
//
// Tag is pgconn.CommandTag, which the compiler infers. So this package needs no pgx.
func Pgx[Tag interface{ RowsAffected() int64 }](tx interface {
	Exec(ctx context.Context, query string, args ...any) (Tag, error)
}) Execer {
	if tx == nil {
		return nil // Insert says so
	}
	return execFunc(func(ctx context.Context, query string, args ...any) (sql.Result, error) {
		tag, err := tx.Exec(ctx, query, args...)
		return driver.RowsAffected(tag.RowsAffected()), err
	})
}

// An execFunc is an Execer.
type execFunc func(ctx context.Context, query string, args ...any) (sql.Result, error)

// ExecContext calls the function.
func (f execFunc) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return f(ctx, query, args...)
}

// maxRows is how many jobs one statement inserts: each has two of its 65,535 parameters.
const maxRows = 1000

// Insert writes jobs into the outbox. They are pushed when tx is committed, in the order of their ids; jobs of
// concurrent transactions may mix. Make jobs by Definition.Job, or write a belay.RawJob.
//
// The client's middleware runs here, with ctx, and may refuse a job: then its receipt has StatusRefused, and
// it is not written. The other receipts have StatusPrepared. Whether a unique job is a duplicate is decided
// when it is pushed. In, ExpiresIn and Deadline count from here.
//
// If Insert returns an error, roll tx back, because some of the jobs may be written and others not.
func (o *Outbox) Insert(ctx context.Context, tx Execer, jobs ...belay.RawJob) ([]belay.Receipt, error) {
	if tx := reflect.ValueOf(tx); !tx.IsValid() || tx.Kind() == reflect.Pointer && tx.IsNil() {
		return nil, errors.New("insert into the outbox: the transaction is nil; check the error of BeginTx")
	}
	receipts := make([]belay.Receipt, len(jobs))
	var args []any
	for i, j := range jobs {
		prepared, receipt, err := o.client.Prepare(ctx, j)
		if err != nil {
			return nil, err
		}
		receipts[i] = receipt
		if receipt.Status == belay.StatusRefused {
			continue
		}
		due := sql.NullTime{Time: prepared.At, Valid: !prepared.At.IsZero()}
		args = append(args, due, prepared.Payload)
	}
	for chunk := range slices.Chunk(args, 2*maxRows) {
		var rows strings.Builder
		for i := range len(chunk) / 2 {
			fmt.Fprintf(&rows, ",($%d::timestamptz,$%d)", 2*i+1, 2*i+2)
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO belay_outbox (due_at, payload) VALUES "+rows.String()[1:], chunk...); err != nil {
			return nil, fmt.Errorf("insert into the outbox: %w", err)
		}
	}
	return receipts, nil
}
