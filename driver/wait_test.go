package driver

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSeconds(t *testing.T) {
	t.Parallel()
	for limit, want := range map[time.Duration]string{
		-time.Second: "0.001", 0: "0.001", time.Microsecond: "0.001", 100 * time.Millisecond: "0.100", 4 * time.Second: "4.000",
		1900 * time.Millisecond: "1.900",
	} {
		require.Equal(t, want, Seconds(limit))
	}
}

// A oneReply client returns one reply to every call.
type oneReply struct {
	Client
	reply Reply
	calls []Call
}

func (s *oneReply) Do(_ context.Context, calls ...Call) []Reply {
	s.calls = append(s.calls, calls...)
	return []Reply{s.reply}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	lost := &UncertainError{Err: errors.New("EOF")}
	for _, c := range []struct {
		reply Reply
		done  bool
		err   error
	}{
		{Reply{Value: int64(1)}, true, nil},
		{Reply{Value: int64(0)}, false, nil},
		{Reply{Err: lost}, false, lost},
		{Reply{Err: NewServerError("NOPERM this user has no permissions")}, false, ErrNoRelease},
		{Reply{Err: NewServerError("ERR unknown subcommand 'UNBLOCK'")}, false, ErrNoRelease},
		{Reply{Err: NewServerError("ERR Unknown subcommand")}, false, ErrNoRelease},
	} {
		client := &oneReply{reply: c.reply}
		release := &Releaser{Client: client}
		done, err := release.Release(t.Context(), 7)
		require.False(t, done || err != nil, "no Wait runs")
		release.waiting.Store(true)
		done, err = release.Release(t.Context(), 0)
		require.False(t, done || err != nil, "the id is not known")
		for range 2 {
			done, err = release.Release(t.Context(), 7)
			require.Equal(t, c.done, done)
			require.Equal(t, c.err, err)
		}
		want := []Call{Command("CLIENT", "UNBLOCK", "7"), Command("CLIENT", "UNBLOCK", "7")}
		if c.err == ErrNoRelease { //nolint:errorlint // it is never wrapped
			want = want[:1] // a server that cannot release is not asked again
		}
		require.Equal(t, want, client.calls)
	}
}
