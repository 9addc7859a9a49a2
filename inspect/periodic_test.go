package inspect

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

func TestPeriodic(t *testing.T) {
	promises(t, map[string]func(w *world){
		"lists each job while ticks move them": func(w *world) {
			soon := time.Now().Unix()
			var want []string
			for n := range 2*lua.MaxDefinitions + 1 {
				name := fmt.Sprintf("job%03d", n)
				want = append(want, name)
				w.do("HSET", w.keys.PeriodicDefinitions(), name, "digest schedule 0 \n"+`{"cron":"@hourly","catch_up":"once","overlap":"skip","job":{"class":"A","jid":"1","args":[]}}`)
				w.do("ZADD", w.keys.Periodic(), strconv.FormatInt(soon+int64(n), 10), name)
			}
			ticked := false
			w.inspector = w.inspectorOf(&betweenCalls{Client: w.driver, after: func(call driver.Call) {
				if !ticked && slices.Contains(call.Args, w.keys.PeriodicDefinitions()) { // the first page was read
					ticked = true
					w.do("ZADD", w.keys.Periodic(), strconv.FormatInt(soon+3600, 10), want[0], strconv.FormatInt(soon+3601, 10), want[1])
					w.do("ZREM", w.keys.Periodic(), want[len(want)-1])
				}
			}})
			all, err := w.inspector.Periodic(w.Context())
			require.NoError(w, err)
			require.True(w, ticked)
			var names []string
			for _, job := range all {
				names = append(names, job.Name)
				require.Empty(w, job.Problem)
			}
			slices.Sort(names)
			require.Equal(w, want[:len(want)-1], names, "each once, without the one that was removed")
		},
	})
}
