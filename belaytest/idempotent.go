package belaytest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
)

// Idempotent runs a handler twice with the same job. It fails the test if the second run changes the result of
// world, or if a run returns an error.
//
// A crash has the same effect: if a worker dies after the handler has returned and before Redis has recorded
// it, the job runs again with the same jid, the same bytes and the same attempt.
//
// world returns the state that the handler changes, such as rows, files, mails sent, or jobs pushed (without
// their jids). Idempotent copies the whole value after each run, including unexported fields, so world may
// return the object itself, such as a pointer.
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
	require.Equal(t, once, textOf(world()), "belaytest: %s is not idempotent: the second run changed what world returns", d.Class())
}
