package browser

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/lua"
)

// The dashboard is killed in the middle of "run all", several times: when Redis has not received a page of jobs, and
// when it has moved them and the reply is lost. After each kill every job is in exactly one place, and pressing the
// button again does the rest.
func TestADashboardKilledDuringRunAll(t *testing.T) {
	const many = 4000
	s := newSite(t)
	s.fill("retries", "", many)
	proxy, addr, b := faultproxy.New(t, s.redis.Addr()), drivertest.FreeAddr(t), newTab(t)
	runAll := func(first string) {
		b.open(first + "retries")
		b.send("document.querySelector(\"a.button[href*='do=retry']\")")
		b.click(button("form.bar", "retry"))
	}
	text, act := s.keys.Act(lua.Source{}, nil).Call.Script.Text(true)
	s.do("SCRIPT", "LOAD", text) // so that no call is made twice
	left := many
	for _, lost := range []faultproxy.Direction{faultproxy.Requests, faultproxy.Replies, faultproxy.Requests} {
		dashboard, first := s.serve(proxy.URL(), addr)
		gate := faultproxy.NewGate()
		proxy.Add(faultproxy.Rule{On: lost, Token: act, Nth: 2, Do: faultproxy.Hold(gate)})
		runAll(first)
		select {
		case <-gate.Arrived():
		case <-time.After(patience):
			require.FailNow(t, "the dashboard does not go on")
		}
		dashboard.kill()
		proxy.Clear()
		// What the dashboard had sent before it died may still be on its way; what the gate holds goes nowhere.
		proxy.CloseConns()
		eventually(t, "the end of the dashboard's connections", func() bool { return proxy.Open() == 0 })
		before := left
		left = s.size("retries", "")
		t.Logf("killed with %d of %d jobs left", left, many)
		require.Less(t, left, before, "the kill came in the middle")
		require.Positive(t, left, "the kill came in the middle")
		everyJobOnce(s, many)
		require.Equal(t, left, s.size("retries", ""), "what is left stays")
	}
	_, first := s.serve(proxy.URL(), addr)
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
