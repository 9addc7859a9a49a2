package integration

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Ruby's poller and Belay's share the schedule: whichever comes first moves a job, and each is moved once.
func TestBothPollersAtOnce(t *testing.T) {
	t.Parallel()
	eachClientWithRuby(t, func(t *testing.T, s *site, ruby *rubySide) {
		const each = 150
		_, book := startSidekiq(t, s)
		eventually(t, "the Ruby process", func() bool { return len(s.status().Processes) == 1 })
		belays := newLedger(t)
		s.work("-q", "go", "--exec", belays.exec("Ran"))

		var forRuby, forBelay []string
		ruby.ask(t, &forRuby, "perform_in", each, "Ran", "ruby", 3)
		ruby.ask(t, &forBelay, "perform_in", each, "Ran", "go", 3)
		runs := make(map[string]int)
		eventually(t, "all jobs to be run", func() bool {
			clear(runs)
			text, err := os.ReadFile(book)
			for line := range strings.Lines(string(text)) {
				var pair [2]string
				if json.Unmarshal([]byte(line), &pair) == nil {
					runs[pair[0]]++
				}
			}
			for _, mark := range belays.marks() {
				if mark.What == "end" {
					runs[mark.JID]++
				}
			}
			return err == nil && len(runs) == 2*each
		})
		for _, jid := range append(forRuby, forBelay...) {
			require.Equal(t, 1, runs[jid], jid)
		}
		require.Empty(t, s.set(s.keys.Schedule()))
	})
}
