package fetch

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// However many settles Redis refuses, each is tried again each minute and no sooner, and none of them costs a
// processor.
func TestManyRefusedSettles(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := newRig(t, open, 20, "mail")
		r.push("mail", 20)
		r.pump("the jobs", func() bool { return len(r.running) == 20 })
		r.do("SET", r.keys.Retry(), "a string where a set should be")
		for _, held := range r.running {
			r.finish(held, job.Retried(held.Bytes, time.Second))
		}
		r.running = nil
		r.pump("all to be refused", func() bool { return r.k.ledger.count(blocked) == 20 })
		until := time.Now().Add(time.Second)
		r.pump("a while", func() bool { return time.Now().After(until) })
		require.Equal(t, 20, strings.Count(r.log.String(), "settle refused"), "each once")
		require.Equal(t, 20, r.loop.shares[0].idle(), "their processors are free")

		r.do("DEL", r.keys.Retry())
		r.k.blockedAt = time.Now()
		r.pump("the settles", func() bool { return r.session.held == 0 })
		require.Equal(t, int64(20), r.do("ZCARD", r.keys.Retry()))
	})
}
