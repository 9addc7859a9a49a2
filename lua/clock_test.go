package lua

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		require.True(t, c.Now().Equal(time.Now()), "this machine's until it knows better")
		sent := time.Now()
		redisTime := sent.Add(time.Hour)
		time.Sleep(20 * time.Millisecond) // the bubble's time: the round trip
		c.Saw(redisTime, sent, time.Now())
		require.True(t, c.Now().Equal(redisTime.Add(10*time.Millisecond)), "theirs was of the middle of the round trip")
		time.Sleep(time.Minute)
		require.True(t, c.Now().Equal(redisTime.Add(time.Minute+10*time.Millisecond)))
	})
}
