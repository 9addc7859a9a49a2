package driver

import (
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

func TestReleased(t *testing.T) {
	t.Parallel()
	require.Equal(t, Command("CLIENT", "UNBLOCK", "7"), Unblock(7))
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
		done, err := Released(c.reply)
		require.Equal(t, c.done, done)
		require.Equal(t, c.err, err)
	}
}
