package browser

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/slowlink"
)

// The dashboard is killed in the middle of "run all", several times. After each kill every job is in exactly one
// place, and pressing the button again does the rest.
func TestADashboardKilledDuringRunAll(t *testing.T) {
	const many, kills = 4000, 3
	s := newSite(t)
	s.fill("retries", "", many)
	// A slow link makes the act last, so that a kill meets it.
	link := slowlink.New(t, s.redis.Addr(), slowlink.Speed{RoundTrip: 40 * time.Millisecond})
	addr := drivertest.FreeAddr(t)
	b := newTab(t)
	runAll := func(first string) {
		b.open(first + "retries")
		b.send("document.querySelector(\"a.button[href*='do=retry']\")")
		b.click(button("form.bar", "retry"))
	}
	left := many
	for n := range kills {
		dashboard, first := s.serve(link.URL(), addr)
		runAll(first)
		enough := many * (kills - n) / (kills + 1)
		eventually(t, "some jobs to run", func() bool { return s.size("retries", "") <= enough })
		dashboard.kill()
		left = s.size("retries", "")
		t.Logf("killed with %d of %d jobs left", left, many)
		require.Positive(t, left, "the kill came in the middle")
		everyJobOnce(s, many)
		require.Equal(t, left, s.size("retries", ""), "what is left stays")
	}
	_, first := s.serve(link.URL(), addr)
	runAll(first)
	b.until("the answer", "document.getElementById('flash')")
	require.Contains(t, eval[string](b, "document.getElementById('flash').textContent"), fmt.Sprintf(answers["retry"], plural(left)))
	require.Zero(t, s.size("retries", ""))
	everyJobOnce(s, many)
}

// everyJobOnce checks that each job is in exactly one place.
func everyJobOnce(s *site, many int) {
	s.t.Helper()
	places := map[string]int{}
	add := func(answer any) {
		entries, _ := answer.([]any)
		for _, entry := range entries {
			text, _ := entry.(string)
			var job struct{ JID string }
			require.NoError(s.t, json.Unmarshal([]byte(text), &job))
			places[job.JID]++
		}
	}
	add(s.do("ZRANGE", s.keys.Retry(), "0", "-1"))
	add(s.do("ZRANGE", s.keys.Dead(), "0", "-1"))
	for _, queue := range queues {
		add(s.do("LRANGE", s.keys.Queue(queue), "0", "-1"))
	}
	require.Len(s.t, places, many, "jobs are lost")
	for jid, n := range places {
		require.Equal(s.t, 1, n, "job %s is in several places", jid)
	}
}
