package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/contrib/outbox"
)

// asRelay is the variable that makes the test's binary a relay: it has the database's address, and relayTo the
// URL of Redis.
const asRelay, relayTo = "BELAY_TEST_RELAY", "BELAY_TEST_REDIS"

// relayAlone relays until it is killed.
func relayAlone() {
	ctx := context.Background()
	db, err := sql.Open("postgres", os.Getenv(asRelay))
	if err != nil {
		panic(err)
	}
	client, err := belay.Open(ctx, os.Getenv(relayTo), nil)
	for err != nil { // its connections may be cut while it starts
		time.Sleep(20 * time.Millisecond)
		client, err = belay.Open(ctx, os.Getenv(relayTo), nil)
	}
	box, err := outbox.New(client, outbox.Config{MaxInterval: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	_ = box.Run(ctx, db)
}

// startRelay starts a process that relays, or stands by.
func (s *shop) startRelay(name string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asRelay+"="+s.dsn+" application_name="+name, relayTo+"="+s.redis.URL())
	require.NoError(s, cmd.Start())
	return cmd
}

// Twelve writers make 10,000 transactions, of which half are rolled back and many are committed late. Two
// processes relay. The one that does is killed twenty times, frozen past its session, and cut off from the
// database and from Redis in between. What is in Redis at the end is what was committed, once each.
func TestOutboxThroughKills(t *testing.T) {
	const transactions, writers, kills = 10_000, 12, 20
	s := newShop(t, newServer(t), "postgres")
	s.db.SetMaxOpenConns(writers)
	s.db.SetMaxIdleConns(writers)

	var left atomic.Int64
	left.Store(transactions)
	committed := make([][]string, writers)
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(w)))
			for n := left.Add(-1); n >= 0; n = left.Add(-1) {
				if jid := s.transact(random, fmt.Sprint(n)); jid != "" {
					committed[w] = append(committed[w], jid)
				}
			}
		})
	}

	relays := map[string]*exec.Cmd{"one": s.startRelay("one"), "two": s.startRelay("two")}
	defer func() {
		for _, relay := range relays {
			_ = relay.Process.Kill()
			_ = relay.Wait()
		}
	}()
	random := rand.New(rand.NewPCG(7, 11))
	relaying := func() (pid int, name string) {
		eventually(t, "a relay", func() bool { pid, name = s.holder(); return relays[name] != nil })
		time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
		return pid, name
	}
	for n := range kills {
		_, name := relaying()
		require.NoError(t, relays[name].Process.Kill())
		_ = relays[name].Wait()
		relays[name] = s.startRelay(name)
		switch pid, name := relaying(); n % 3 {
		case 0: // its session ends while it is frozen, as PostgreSQL would end it, and another one relays
			require.NoError(t, relays[name].Process.Signal(syscall.SIGSTOP))
			s.server.do(t, "SELECT pg_terminate_backend($1)", pid)
			relaying()
			require.NoError(t, relays[name].Process.Signal(syscall.SIGCONT))
		case 1:
			s.server.do(t, "SELECT pg_terminate_backend($1)", pid)
		case 2:
			_, err := s.redis.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			require.NoError(t, err)
		}
	}
	writing.Wait()
	s.drained()

	want := make(map[string]int)
	for _, jids := range committed {
		for _, jid := range jids {
			want[jid]++
		}
	}
	got := make(map[string]int)
	for _, j := range s.queue() {
		got[j.JID()]++
	}
	require.InDelta(t, transactions/2, len(want), transactions/20)
	for jid, times := range got {
		require.Equal(t, want[jid], times, "how often %s is in the queue, of a transaction that was committed or not", jid)
	}
	require.Len(t, got, len(want), "all that was committed")
	t.Logf("%d of %d transactions committed; as many jobs, once each", len(want), transactions)
}

// A frozen relay keeps its connection. PostgreSQL ends the session, and the relay that thaws doubles nothing.
func TestAFrozenRelayIsReplaced(t *testing.T) {
	t.Parallel()
	s := newShop(t, newServer(t), "postgres")
	one := s.startRelay("one")
	defer func() { _, _ = one.Process.Kill(), one.Wait() }()
	var relaying string
	eventually(t, "the first relay", func() bool { _, relaying = s.holder(); return relaying == "one" })
	two := s.startRelay("two")
	defer func() { _, _ = two.Process.Kill(), two.Wait() }()
	require.NoError(t, one.Process.Signal(syscall.SIGSTOP))
	s.insert("while it is frozen")
	s.drained()
	_, relaying = s.holder()
	require.Equal(t, "two", relaying)
	require.NoError(t, one.Process.Signal(syscall.SIGCONT))
	s.insert("later")
	s.drained()
	require.Equal(t, []string{"while it is frozen", "later"}, s.names())
}

// transact makes one transaction, and returns the jid of its job if it was committed.
func (s *shop) transact(random *rand.Rand, name string) (jid string) {
	ctx := context.WithoutCancel(s.Context())
	tx, err := s.db.BeginTx(ctx, nil)
	require.NoError(s, err)
	receipts, err := s.box.Insert(ctx, tx, order.Job(name))
	require.NoError(s, err)
	time.Sleep(time.Duration(random.IntN(25)) * time.Millisecond)
	if random.IntN(2) == 0 {
		require.NoError(s, tx.Rollback())
		return ""
	}
	require.NoError(s, tx.Commit())
	return receipts[0].JID
}
