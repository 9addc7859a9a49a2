package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/check"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// A push that is cut off is repeated: while workers take the jobs away, over a bad line, across a crash of
// Redis. The jobs are exactly those that the test meant to push, and the oracle sees none accepted twice.
func TestAPushThatIsCutOffIsStoredOnce(t *testing.T) {
	t.Parallel()
	const singles, lines = 120, 600
	eachClient(t, func(t *testing.T, s *site) {
		book, proxy := newLedger(t), faultproxy.New(t, s.server.Addr())
		for nth := range 40 { // a fifth of the requests, and of the answers; see faultproxy.Rule for how it counts
			proxy.Add(faultproxy.Rule{On: faultproxy.Direction(nth % 2), Token: "belay:pushes:", Nth: 2 + 2*nth, Do: faultproxy.Close()})
		}
		worker := s.work("-c", "4", "--exec", book.exec("Cut"))

		client := s.by(proxy.URL()).clientOf(check.RoleProducer)
		cut := belay.Define[int]("Cut", belay.PushOnce())
		var jids []string
		for n := range singles {
			receipt, err := cut.Enqueue(t.Context(), client, n)
			require.NoError(t, err)
			jids = append(jids, receipt.JID)
		}
		require.Greater(t, proxy.Count("EVALSHA"), singles+20, "too little was cut off")
		for _, jid := range jids {
			book.awaitEnd(jid)
			require.Len(t, book.starts(jid), 1)
		}
		worker.signal(syscall.SIGTERM)
		require.Zero(t, worker.wait(), worker.log())

		var file strings.Builder
		for n := range lines {
			_, _ = fmt.Fprintf(&file, `{"class":"Filed","jid":"filed-%d","queue":"filed-%d"}`+"\n", n, n%2)
		}
		path := filepath.Join(t.TempDir(), "jobs.ndjson")
		require.NoError(t, os.WriteFile(path, []byte(file.String()), 0o600))
		proxy.Clear()
		proxy.Add(
			faultproxy.Rule{On: faultproxy.Replies, Token: "filed-300", Nth: 1, Do: faultproxy.Before(func() {
				faultproxy.Kill(t, s.server.PID())()
				s.server.Restart(t)
			})},
			faultproxy.DropReply("filed-599"), faultproxy.DropRequest("filed-599"))
		out, errs, status := s.by(proxy.URL()).belay("push", "--file", path)
		require.Zero(t, status, errs)
		require.Equal(t, lines, strings.Count(out, "\n"))
		require.Contains(t, errs, "600 queued, 0 refused, 0 unknown, 0 not pushed")
		for queue := range 2 {
			require.Len(t, s.list(s.keys.Queue(fmt.Sprint("filed-", queue))), lines/2)
		}
		require.LessOrEqual(t, len(s.do("KEYS", s.prefix+":belay:pushes:*").([]any)), 2, "one for each of two programs")
	})
}
