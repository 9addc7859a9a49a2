package link

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/logbook"
)

// A stub answers each Do by a function.
type stub struct {
	driver.Client
	do func(allowed time.Duration, calls []driver.Call) error
}

func (s *stub) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	deadline, _ := ctx.Deadline()
	err := s.do(time.Until(deadline), calls)
	replies := make([]driver.Reply, len(calls))
	for i := range replies {
		replies[i].Err = err
	}
	return replies
}

var (
	cut  = &driver.UncertainError{Err: context.DeadlineExceeded}
	page = driver.Command("LRANGE", "list", "0", "-1")
)

func TestALinkGivesACallTheTimeOfItsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // by the clock of a bubble, in which no time passes between a call and its stub
		var allowed time.Duration
		link := Link{Client: &stub{do: func(a time.Duration, _ []driver.Call) error { allowed = a; return nil }}, Round: time.Second}
		link.Do(t.Context(), page)
		require.InDelta(t, time.Second, allowed, float64(time.Millisecond)) // the call has a few bytes, too
		link.Carry(t.Context(), 8*fullRate, page)
		require.InDelta(t, 9*time.Second, allowed, float64(time.Millisecond))
	})
}

func TestALinkThatFailsAsksForLessAndIsNamedSlowOnce(t *testing.T) {
	slow := true
	var log bytes.Buffer
	link := Link{Largest: 1 << 20, Log: slog.New(logbook.JSON(&log, slog.LevelDebug)), Duty: "reading", Client: &stub{do: func(_ time.Duration, calls []driver.Call) error {
		if slow && calls[0].Name() == "LRANGE" {
			return cut
		}
		return nil
	}}}
	before := link.Page()
	for range 5 {
		err := link.Carry(t.Context(), link.Page(), page)[0].Err
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "LRANGE: ")
		require.True(t, driver.Outage(err))
		require.False(t, driver.Certain(err))
		require.True(t, link.Unchecked())
		require.NoError(t, link.Excused(err))
		require.NoError(t, link.Check(t.Context()))
		require.False(t, link.Unchecked())
		require.Error(t, link.Excused(err))
	}
	require.Equal(t, 1, strings.Count(log.String(), "slow link"), log.String())
	require.Contains(t, log.String(), `"duty":"reading"`)
	require.Contains(t, log.String(), `"error":"LRANGE: `)
	require.Less(t, link.Page(), before/4)
	slow = false
	require.NoError(t, link.Carry(t.Context(), link.Page(), page)[0].Err)
	require.False(t, link.Unchecked())
}

func TestALinkThatIsDownIsNotCalledSlow(t *testing.T) {
	var log bytes.Buffer
	link := Link{Log: slog.New(logbook.JSON(&log, slog.LevelDebug)), Client: &stub{do: func(time.Duration, []driver.Call) error { return cut }}}
	for range 3 {
		link.Carry(t.Context(), link.Page(), page)
		require.Error(t, link.Check(t.Context()))
	}
	require.Empty(t, log.String())
}

func TestARefusalIsAnAnswer(t *testing.T) {
	link := Link{Client: &stub{do: func(time.Duration, []driver.Call) error { return driver.NewServerError("WRONGTYPE no") }}}
	before := link.Page()
	require.Error(t, link.Carry(t.Context(), link.Page(), page)[0].Err)
	require.False(t, link.Unchecked())
	require.Equal(t, before, link.Page())
}
