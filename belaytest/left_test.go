package belaytest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A Drain stops its server when no job is left. A job that moves meanwhile is still left: the stop would reach its
// handler.
func TestAJobThatMovesIsLeft(t *testing.T) {
	t.Parallel()
	k := New(t)
	queue, working := k.keys.Queue("mail"), k.keys.Working("mail", "me")
	k.do("LPUSH", queue, "job")
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for from, to := queue, working; ; from, to = to, from {
			select {
			case <-done:
				return
			default:
				k.do("LMOVE", from, to, "RIGHT", "LEFT")
			}
		}
	}()
	t.Cleanup(func() { close(done); <-ended })
	for range 100 {
		require.Equal(t, 1, k.left([]string{"mail"}, "me"))
	}
}
