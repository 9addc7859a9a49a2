package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// The way back to Sidekiq: what a killed worker held, and what is quarantined, ends in plain queues.
func TestReturnGivesBackWhatOnlyBelayWouldRun(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			w := h.startWorker(t, "--ttl", "1s", "-c", "2", "-q", "mail", "--exec", "Held=sh -c 'echo begun >>out; sleep 60'")
			for n := range 3 {
				h.push("Held", fmt.Sprint(n), "-q", "mail")
			}
			h.do("LPUSH", h.key("belay:quarantine:low"), `{"class":"A","jid":"q1","queue":"low","args":[],"retry_count":1,"interrupted_count":2,"interrupted_at":1.5}`)
			h.do("SADD", h.key("queues"), "low")
			drivertest.Eventually(t, func() bool { return h.do("LLEN", h.key("queue:mail")) == int64(1) }, soon, 10*time.Millisecond)

			alive := h.invoke("", "return", "--to-ruby", "--client", client)
			require.Equal(t, exitFailure, alive.code)
			require.Contains(t, alive.errs, "workers of Belay are alive")
			words := strings.Fields(alive.errs)
			identity := words[len(words)-1]
			require.Contains(t, strings.Fields(h.invoke("", "processes").out), identity)

			require.NoError(t, w.cmd.Process.Kill())
			var last said
			drivertest.Eventually(t, func() bool {
				last = h.invoke("", "return", "--to-ruby", "--json", "--client", client)
				return last.code == 0
			}, soon, 100*time.Millisecond, "%v", &last)
			require.JSONEq(t, `{"recovered":2,"dead":0,"quarantined":1,"waiting":0}`, last.out)
			waiting := h.payloads("LRANGE", h.key("queue:mail"), "0", "-1")
			require.Len(t, waiting, 3)
			for n, payload := range waiting { // the last pushed one never ran, and is the youngest
				require.Contains(t, payload, fmt.Sprintf(`"args":[%d]`, 2-n))
			}
			low := h.payloads("LRANGE", h.key("queue:low"), "0", "-1")
			require.Len(t, low, 1)
			require.Contains(t, low[0], `"retry_count":1`)
			require.NotContains(t, low[0], "interrupted")
			require.Equal(t, int64(0), h.do("SCARD", h.key("processes")))

			// A take whose reply was lost may arrive after its process was found empty.
			h.do("LPUSH", h.key("belay:working:mail:"+identity), "garbage", `{"class":"A","jid":"late","queue":"mail","args":[]}`)
			late := h.invoke("", "return", "--to-ruby", "--json", "--client", client)
			require.JSONEq(t, `{"recovered":2,"dead":1,"quarantined":0,"waiting":0}`, late.out)
			require.Contains(t, late.errs, "moved to the dead set: unreadable payload")
			require.Contains(t, h.do("LINDEX", h.key("queue:mail"), "-1"), `"jid":"late"`)
			require.JSONEq(t, `{"recovered":0,"dead":0,"quarantined":0,"waiting":0}`, h.invoke("", "return", "--to-ruby", "--json", "--client", client).out)
		})
	}
	for _, words := range []string{"return", "return --to-ruby x", "return --to-ruby --dry-run"} {
		require.Equal(t, exitUsage, invoke("", strings.Fields(words)...).code, words)
	}
}

// A script that still recovers jobs of Ruby processes with this command learns where it is now.
func TestReturnNamesTheCommandForGitLab(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"return --from-gitlab", "return --from-gitlab --dry-run", "return --from-gitlab --doubt 0", "return --to-ruby --from-gitlab"} {
		answer := invoke("", strings.Fields(words)...)
		require.Equal(t, exitUsage, answer.code, words)
		require.Equal(t, 1, strings.Count(answer.errs, "\n"), answer.errs)
		require.Contains(t, answer.errs, "belay-gitlab in contrib/gitlab: https://github.com/belayq/belay/blob/main/docs/ruby.md#gitlabs-reliable-fetch")
	}
	require.NotContains(t, invoke("", "return", "--help").out, "gitlab")
}
