package belaytest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
)

// Idempotent runs a handler twice with the same job and fails the test unless the second run leaves the world
// as the first one did. A crash has this effect: if a worker dies after the handler has returned and before
// Redis has recorded it, the job runs again with the same jid, the same bytes and the same attempt.
//
// world returns the state that the handler changes: rows, files, mails sent, jobs pushed (without their
// jids). Idempotent reads the value completely after each run, with unexported fields, so world may return
// the object itself.
//
// An error of either run fails the test.
func Idempotent[T any](t testing.TB, d *belay.Definition[T], handler func(ctx context.Context, args T) error, args T, world func() any) {
	t.Helper()
	k := New(t)
	k.Serve(func(s *belay.Server) { d.Handle(s, handler) })
	k.OnFailure(func(r Run) { t.Fatalf("belaytest: %s, run %d of two: %v", r.name(), len(k.Runs()), r.Err) })
	if _, err := d.Enqueue(context.Background(), k.Client(), args); err != nil {
		t.Fatalf("belaytest: %v", err)
	}
	waiting := k.Waiting()[0]
	k.DrainAll()
	once := textOf(world())
	k.do("SADD", k.keys.Queues(), waiting.Queue)
	k.do("LPUSH", k.keys.Queue(waiting.Queue), k.Runs()[0].Job.Raw())
	k.DrainAll()
	require.Equal(t, once, textOf(world()), "belaytest: %s is not idempotent: its second run changed the world", d.Class())
}
