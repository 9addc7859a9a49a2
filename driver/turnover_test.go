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
		for range 2 {
			require.True(t, turnover.Allow(2))
			require.True(t, turnover.Allow(2))
			require.False(t, turnover.Allow(2))
			time.Sleep(time.Second)
		}
	})
}
