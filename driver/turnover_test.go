package driver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTurnover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turnover Turnover
		readOnly := NewServerError("READONLY a replica")
		for range 2 {
			require.False(t, turnover.Due(nil, Silence-1, 2))
			require.False(t, turnover.Due(NewServerError("ERR no"), 0, 2))
			require.True(t, turnover.Due(readOnly, 0, 2))
			require.True(t, turnover.Due(nil, Silence, 2))
			require.False(t, turnover.Due(readOnly, Silence, 2), "a third of two connections within a second")
			time.Sleep(time.Second)
		}
	})
}
