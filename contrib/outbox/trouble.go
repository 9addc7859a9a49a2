package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/belayq/belay/link"
)

// A trouble is what has failed since the relay last worked. The zero trouble, but for its log, is none.
type trouble struct {
	log      *slog.Logger
	backoff  link.Backoff
	loggedAt time.Time
	claim    int64 // the number of the claim that could not be pushed; 0 if only the database failed
}

// failed logs an error, if it is time, and returns how long to wait.
func (t *trouble) failed(err error) time.Duration {
	var unpushed *unpushedError
	if errors.As(err, &unpushed) {
		t.claim = unpushed.claim
	}
	if t.loggedAt.IsZero() || time.Since(t.loggedAt) > logEvery {
		t.loggedAt = time.Now()
		t.log.Warn("outbox relay failed; will retry", "error", err.Error())
	}
	return t.backoff.Next()
}

// over records that the relay works.
func (t *trouble) over() {
	if !t.loggedAt.IsZero() {
		t.log.Info("outbox relay works again")
	}
	*t = trouble{log: t.log}
}

// elsewhere records that another process relays. That shows that the database works. Redis works once a claim
// that could not be pushed is not the current one any more.
func (t *trouble) elsewhere(ctx context.Context, conn *sql.Conn) error {
	if t.claim != 0 {
		var current int64
		if err := conn.QueryRowContext(ctx, "SELECT number FROM belay_outbox_claim").Scan(&current); err != nil {
			return fmt.Errorf("read the claim: %w", err)
		}
		if current == t.claim {
			return nil
		}
	}
	t.over()
	return nil
}

// An unpushedError is why the claim of this number could not be pushed.
type unpushedError struct {
	claim int64
	err   error
}

func (e *unpushedError) Error() string { return e.err.Error() }
func (e *unpushedError) Unwrap() error { return e.err }
