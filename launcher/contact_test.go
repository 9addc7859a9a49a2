package launcher

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/logbook"
)

// While heartbeats find Redis away, no other duty that needs Redis begins a pass; each begins one at once when
// Redis is back.
func TestOneDutyTriesAgainWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	l := newShard(&Launcher{cfg: Config{TTL: time.Second, Log: logbook.OrDiscard(nil)}}, Shard{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	passes := func(d duty, pass func(context.Context) error) chan bool {
		began := make(chan bool, 1000)
		d.period, d.pass = 10*time.Millisecond, each(func(ctx context.Context) error {
			began <- true
			return pass(ctx)
		})
		go l.repeat(ctx, d)
		return began
	}
	away := make(chan bool, 1)
	away <- true
	beats := passes(duty{name: "beat", offline: true, rest: 10 * time.Millisecond}, l.recording(func(context.Context) error {
		if len(away) > 0 {
			return errors.New("connection refused")
		}
		return nil
	}))
	for range 3 {
		<-beats
	}
	fine := func(context.Context) error { return nil }
	others, local := passes(duty{name: "poll"}, fine), passes(duty{name: "watch", offline: true}, fine)
	for range 5 {
		<-beats
		<-local
	}
	require.Empty(t, others)
	<-away
	<-others
	<-others
}

// A process becomes quiet and stops a moment later: what a duty does when it ends is done to its end. Half of it
// would give up a lease, and wake no process that waits for it.
func TestAStopDoesNotInterruptADutyThatLeaves(t *testing.T) {
	t.Parallel()
	l := newShard(&Launcher{cfg: Config{TTL: time.Second, Log: logbook.OrDiscard(nil)}}, Shard{})
	l.launcher.quiet.Store(true)
	ctx, stop := context.WithCancel(t.Context())
	left := errors.New("it has not left")
	l.repeat(ctx, duty{name: "poll", intake: true, leave: func(ctx context.Context) error {
		stop()
		left = ctx.Err()
		return nil
	}})
	require.NoError(t, left)
}
