package job

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStartBy(t *testing.T) {
	t.Parallel()
	const created, enqueued, failed = 1_700_000_000, 1_700_000_100, 1_700_000_200
	for name, c := range map[string]struct {
		fields string
		want   int64 // 0 for no limit
	}{
		"none":                                   {``, 0},
		"the expiry":                             {`,"expires_in":60,"expiry":1700000042.0`, 1_700_000_042},
		"the earlier deadline":                   {`,"expiry":1700000042.0,"belay_deadline_ms":1700000041000`, 1_700_000_041},
		"the later deadline":                     {`,"expiry":1700000042.0,"belay_deadline_ms":1700000043000`, 1_700_000_042},
		"a deadline alone":                       {`,"belay_deadline_ms":1700000041000`, 1_700_000_041},
		"expires_in alone counts from the queue": {`,"expires_in":60`, enqueued + 60},
		"and after a failure from that":          {fmt.Sprintf(`,"expires_in":60,"failed_at":%d.0`, failed), failed + 60},
		"an expiry that is null":                 {`,"expires_in":60,"expiry":null`, enqueued + 60},
		"expires_in that is no time":             {`,"expires_in":"soon"`, 0},
		"expires_in of nothing":                  {`,"expires_in":0`, 0},
		"a deadline that is no time":             {`,"belay_deadline_ms":"soon"`, 0},
		"a deadline before 1970":                 {`,"belay_deadline_ms":-1`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, err := Parse(fmt.Sprintf(`{"class":"A","jid":"j","args":[],"created_at":%d.0,"enqueued_at":%d.0%s}`, created, enqueued, c.fields))
			require.NoError(t, err)
			at, limited := j.StartBy()
			require.Equal(t, c.want != 0, limited)
			if limited {
				require.Equal(t, time.Unix(c.want, 0), at)
			}
		})
	}
}
