package fetch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// What a lost reply left behind sinks below what is taken after it; it must be found however deep it lies.
func TestOrphanedEntriesDeepInALongList(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		for name, size := range map[string]struct{ jobs, bytes int }{
			"below_300_jobs":               {jobs: 300, bytes: 10},
			"below_nine_megabytes_of_jobs": {jobs: 10, bytes: 900_000},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, open, size.jobs+1, "mail")
				for i := range size.jobs {
					r.do("LPUSH", r.keys.Queue("mail"), job.Draft{
						Class: "Test", Queue: "mail", ArgsJSON: fmt.Sprintf("[%d,%q]", i, strings.Repeat("x", size.bytes)),
					}.Encode())
				}
				r.stay()
				r.pump("the jobs", func() bool { return len(r.running) == size.jobs })
				orphan := payload("mail")
				r.do("RPUSH", r.keys.Working("mail", r.session.Identity), orphan)
				for looks := 0; len(r.running) == size.jobs; looks++ {
					require.Less(t, looks, 6, "looks in vain")
					r.beat()
					r.pump("a look", func() bool { return !r.k.reconcile.due && !r.k.reconcile.unsure && r.k.inFlight == 0 })
				}
				require.Equal(t, orphan, r.running[size.jobs].Bytes)
				r.end(done)
				require.Empty(t, r.working("mail"))
			})
		}
	})
}
