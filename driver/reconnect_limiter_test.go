package driver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTurnover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limiter ReconnectLimiter
		readOnly := NewServerError("READONLY a replica")
		for range 2 {
			require.False(t, limiter.Due(nil, Silence-1, 2))
			require.False(t, limiter.Due(NewServerError("ERR no"), 0, 2))
			require.True(t, limiter.Due(readOnly, 0, 2))
			require.True(t, limiter.Due(nil, Silence, 2))
			require.False(t, limiter.Due(readOnly, Silence, 2), "a third of two connections within a second")
			time.Sleep(time.Second)
		}
	})
}
