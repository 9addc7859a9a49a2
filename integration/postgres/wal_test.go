package postgres

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/dedup/wal"
	"github.com/belayq/belay/internal/drivertest"
)

// TestMain lets the test's own binary be the relays of TestOutboxThroughKills.
func TestMain(m *testing.M) {
	if os.Getenv(asRelay) != "" {
		relayAlone()
		return
	}
	os.Exit(drivertest.Main(m))
}

// A sight is what one run saw.
type sight struct {
	position               belay.LSN
	hasty                  error // of waiting for less time than it takes
	there, onPrimary, then int   // revisions: on the replica then, on the primary, and on the replica when it had waited
}

// Fifty pushes are refused, each after a write. The one run that there is knows of the last of them, before it
// and at its retry, and reads it from the replica as soon as that has it; from the primary, if that takes too
// long.
func TestTheRunSeesWhatTheLastRefusedPushWroteBefore(t *testing.T) {
	both := newPair(t)
	url := drivertest.Redis(t).URL()
	for _, until := range []dedup.Until{belay.UntilExecuting, belay.UntilExecuted} {
		t.Run(string(until), func(t *testing.T) {
			client, err := belay.Open(t.Context(), url, &belay.ClientConfig{Prefix: drivertest.Prefix(t)})
			require.NoError(t, err)
			client.Use("wal", belay.StampWAL("main", func(ctx context.Context) (belay.LSN, error) { return wal.Current(ctx, both.primary) }))
			defer func() { _ = client.Close() }()
			reindex := belay.Define[int]("Reindex", belay.Unique(until), belay.Idempotent())

			both.pause(t)
			var last belay.LSN
			for n := range 51 {
				both.primary.do(t, "UPDATE products SET revision = revision + 1 WHERE id = 42")
				receipt, err := reindex.Enqueue(t.Context(), client, 42)
				require.NoError(t, err)
				require.Equal(t, n > 0, receipt.Status == belay.StatusDuplicate, "push %d: %s", n, receipt.Status)
				position, err := wal.Current(t.Context(), both.primary)
				require.NoError(t, err)
				require.Greater(t, position, last)
				last = position
			}
			before, after := revision(both.replica.DB), revision(both.primary.DB)
			require.Equal(t, before+51, after)

			seen := make(chan sight, 2)
			resume := make(chan struct{})
			server, err := belay.NewServer(client, belay.ServerConfig{})
			require.NoError(t, err)
			runs := 0
			reindex.Handle(server, func(ctx context.Context, _ int) error {
				s := sight{position: belay.WALPositions(ctx)["main"]}
				s.hasty = wal.Wait(ctx, both.replica, s.position, 20*time.Millisecond)
				s.there, s.onPrimary = revision(both.replica.DB), revision(both.primary.DB)
				if runs++; runs == 1 {
					seen <- s
					return belay.RetryIn(0, errors.New("the first run fails"))
				}
				resume <- struct{}{}
				if err := wal.Wait(ctx, both.replica, s.position, patience); err != nil {
					return err
				}
				s.then = revision(both.replica.DB)
				seen <- s
				return nil
			})
			done := make(chan error, 1)
			ctx, stop := context.WithCancel(t.Context())
			go func() { done <- server.Run(ctx) }()
			first := await(t, seen)
			<-resume
			both.resume(t)
			second := await(t, seen)
			stop()
			require.NoError(t, <-done)

			for _, s := range []sight{first, second} {
				require.Equal(t, last, s.position)
				require.ErrorIs(t, s.hasty, wal.ErrUsePrimary)
				require.ErrorContains(t, s.hasty, last.String()+" is needed")
				require.Equal(t, before, s.there)
				require.Equal(t, after, s.onPrimary)
			}
			require.Equal(t, after, second.then)
			require.Empty(t, seen, "it ran once, and was retried once")
		})
	}
}

func revision(db *sql.DB) (n int) {
	if db.QueryRow("SELECT revision FROM products WHERE id = 42").Scan(&n) != nil {
		return -1
	}
	return n
}

func await[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		require.FailNow(t, "waited in vain for a run")
		panic("unreachable")
	}
}

// Whatever is asked, the answer comes within the bound, and none says that a replica has what it has not.
func TestWait(t *testing.T) {
	both := newPair(t)
	current := func() belay.LSN {
		t.Helper()
		position, err := wal.Current(t.Context(), both.primary)
		require.NoError(t, err)
		return position
	}
	t.Run("a primary has everything", func(t *testing.T) {
		require.NoError(t, wal.Wait(t.Context(), both.primary, current()+1<<40, 0))
	})
	t.Run("no position is everywhere, asked or not", func(t *testing.T) {
		require.NoError(t, wal.Wait(t.Context(), nil, 0, 0))
	})
	t.Run("a replica that follows has it soon", func(t *testing.T) {
		for n := range 20 {
			both.primary.do(t, "UPDATE products SET revision = $1", n)
			require.NoError(t, wal.Wait(t.Context(), both.replica, current(), patience))
			require.Equal(t, n, revision(both.replica.DB))
		}
	})
	t.Run("also of a commit that waits for no disk", func(t *testing.T) {
		conn, err := both.primary.Conn(t.Context())
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = conn.ExecContext(t.Context(), "SET synchronous_commit = off")
		require.NoError(t, err)
		for n := range 5 {
			_, err = conn.ExecContext(t.Context(), "UPDATE products SET revision = $1", 100+n)
			require.NoError(t, err)
			require.NoError(t, wal.Wait(t.Context(), both.replica, current(), patience))
			require.Equal(t, 100+n, revision(both.replica.DB))
		}
	})
	t.Run("also at the beginning of a page, with nothing on it yet", func(t *testing.T) {
		const page, header = 8192, 24
		raw := func() belay.LSN {
			var text string
			require.NoError(t, both.primary.QueryRowContext(t.Context(), "SELECT pg_current_wal_insert_lsn()::text").Scan(&text))
			return parse(t, text)
		}
		// A message fills up the page. What a message of no bytes takes is found out by writing one.
		emit := func(bytes int) {
			both.primary.do(t, "SELECT pg_logical_emit_message(false, '', repeat('x', $1))", bytes)
		}
		for range 50 {
			begun := raw()
			emit(100)
			cost := int(raw()-begun) - 100 // and what is lost to alignment, seven bytes at most
			left := page - int(raw()%page)
			for ; left < cost+300; left += page - header {
			}
			emit(left - cost - 100 + 96)
			if at := raw(); at%page == header {
				require.Equal(t, at-header, current(), "where the replica will stand")
				require.NoError(t, wal.Wait(t.Context(), both.replica, current(), patience))
				return
			}
			emit(8)
		}
		require.Fail(t, "no record ended with its page")
	})
	t.Run("a replica is no primary", func(t *testing.T) {
		_, err := wal.Current(t.Context(), both.replica)
		require.ErrorContains(t, err, "recovery is in progress")
	})
	t.Run("it ends with its context", func(t *testing.T) {
		both.pause(t)
		defer both.resume(t)
		ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer stop()
		require.ErrorIs(t, wal.Wait(ctx, both.replica, current()+1<<40, patience), context.DeadlineExceeded)
		require.ErrorIs(t, wal.Wait(t.Context(), both.replica, current()+1<<40, 0), wal.ErrUsePrimary)
	})
	t.Run("a replica that is away is none to wait for", func(t *testing.T) {
		away, err := sql.Open("postgres", "host=127.0.0.1 port=1 user=belay sslmode=disable connect_timeout=1")
		require.NoError(t, err)
		defer func() { _ = away.Close() }()
		require.ErrorIs(t, wal.Wait(t.Context(), away, 1, patience), wal.ErrUsePrimary)
	})
	t.Run("a replica that has become the primary has everything that there is", func(t *testing.T) {
		both.replica.do(t, "SELECT pg_promote()")
		require.NoError(t, wal.Wait(t.Context(), both.replica, current()+1<<40, 0))
	})
}

func parse(t *testing.T, text string) belay.LSN {
	t.Helper()
	position, err := dedup.ParseLSN(text)
	require.NoError(t, err)
	return position
}
