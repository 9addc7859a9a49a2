package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A program need not have the environment of Redis' URL to find it: it stands in /proc, in that of its
// parent.
func TestAProgramCannotReadTheURLInItsParentsEnvironment(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.push("A")
	w := h.prepareWorker(t, "--exec", `A=sh -c 'tr "\0" "\n" </proc/$PPID/environ >seen; echo >>seen'`)
	w.cmd.Env = append(w.cmd.Env, "REDIS_URL=redis://:SECRET@127.0.0.1:1/0", "HOME=/somewhere")
	w.cmd.Stderr = w.errs
	w.start()
	seen := w.awaitFile("seen")
	require.Contains(t, seen, "HOME=/somewhere")
	require.NotContains(t, seen, "SECRET")
	require.NotContains(t, seen, h.server.Addr())
}
