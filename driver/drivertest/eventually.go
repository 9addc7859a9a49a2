package drivertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Eventually asks a condition in the test's own goroutine until it holds, and fails the test once the limit has
// passed. The condition may fail the test itself, and never runs after the test's end, as that of
// require.Eventually can.
func Eventually(t testing.TB, condition func() bool, limit, pause time.Duration, message ...any) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			require.FailNow(t, "the condition never held", message...)
		}
	}
}
