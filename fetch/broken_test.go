package fetch

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A take that finds enough before it comes to a broken queue has not seen it mended.
func TestABrokenQueueIsNamedOnce(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := newRig(t, open, 1, "good", "broken")
		r.do("SET", r.keys.Queue("broken"), "x")
		for range 10 {
			r.stay()
			r.push("good", 3)
			for range 3 {
				r.pump("a job", func() bool { return len(r.running) == 1 })
				r.end(done)
			}
			r.pump("the wait", func() bool { return r.k.openWaits() == 1 })
		}
		require.Equal(t, 1, strings.Count(r.log.String(), "queue skipped"))
	})
}
