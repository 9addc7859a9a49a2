package integration

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// absences are how long Redis is away: shorter than a beat, and longer than two idle waits. BELAY_LONG=1 has
// five minutes.
func absences() []time.Duration {
	if os.Getenv("BELAY_LONG") == "1" {
		return []time.Duration{500 * time.Millisecond, 9 * time.Second, 5 * time.Minute}
	}
	return []time.Duration{500 * time.Millisecond, 9 * time.Second}
}

// However long Redis was silent, an idle worker has the next job within seconds of its return, and says that it
// is ready only when it is: its waits are up again by then, or the job would not start.
func TestWorkResumesAfterSilenceOfAnyLength(t *testing.T) {
	t.Parallel()
	var running sync.WaitGroup // they mostly wait
	for name, silence := range silences {
		for _, client := range []string{"go-redis", "rueidis"} {
			running.Go(func() {
				t.Run(name+"/"+client, func(t *testing.T) {
					s, book := ordinarySite(t), newLedger(t)
					s.client = client
					seen, begin, end := silence(t, s)
					health := drivertest.FreeAddr(t)
					p := seen.work("-c", "2", "--health-addr", health, "--exec", book.exec("Any"))
					done := 0
					for _, absence := range absences() {
						eventually(t, "the worker to wait", func() bool { return strings.Contains(fmt.Sprint(s.do("INFO", "clients")), "blocked_clients:1") })
						begin()
						time.Sleep(absence)
						if absence > 5*time.Second {
							require.False(t, isReady(t, health), "ready without Redis")
						}
						end()
						back := time.Now()
						jid := s.push("Any", "default", jsonArgs(1, 0))
						took := book.awaitStart(jid, 1).At.Sub(back)
						t.Logf("after %v: began %v after the return", absence, took.Round(time.Millisecond))
						require.Less(t, took, resumed)
						done++
						eventually(t, "the worker to be ready", func() bool { return isReady(t, health) })
					}
					eventually(t, "all to be counted", func() bool { return s.text(s.keys.Processed()) == fmt.Sprint(done) })
					require.Len(t, book.starts(""), done)
					waitTerm(t, p)
				})
			})
		}
	}
	running.Wait()
}

// isReady is whether the worker says so at its address.
func isReady(t *testing.T, health string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+health+"/readyz", http.NoBody)
	require.NoError(t, err)
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
