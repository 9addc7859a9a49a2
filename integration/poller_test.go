package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
)

// The poller is killed before it moves a page of due jobs, when the page is moved and the reply is lost, and
// between pages; and its understudy likewise, and the next. Each job arrives in its queue, once.
func TestThePollerIsKilledAtItsWork(t *testing.T) {
	t.Parallel()
	const due = 3000 // a dozen pages
	eachClientAtOnce(t, func(t *testing.T, s *site) {
		words := []string{"ZADD", s.keys.Schedule()}
		jids := make(map[string]bool)
		for range due {
			jid := newJID()
			jids[jid] = true
			words = append(words, "1000000000", rubyPayload("Later", "later", "[]", jid))
		}
		promote := address(s.keys.Promote("", nil, time.Time{}).Call)
		var pollers []*process
		for _, point := range []faultproxy.Rule{
			{On: faultproxy.Requests, Token: promote, Nth: 3},
			{On: faultproxy.Replies, Token: promote, Nth: 2},
			{On: faultproxy.Requests, Token: promote, Nth: 1},
			{On: faultproxy.Replies, Token: promote, Nth: 1},
		} {
			proxy := faultproxy.New(t, s.server.Addr())
			p := s.by(proxy.URL()).work(append(fast, "-q", "other", "-c", "1", "--exec", "Any=true")...)
			point.Do = faultproxy.Before(faultproxy.Kill(t, p.pid))
			proxy.Add(point)
			pollers = append(pollers, p)
		}
		s.do(words...)
		for _, p := range pollers {
			eventually(t, "the next poller to be killed", p.ended)
		}
		left := s.do("ZCARD", s.keys.Schedule()).(int64)
		require.Positive(t, left, "it is all done: the last ones were killed for nothing")
		require.Less(t, left, int64(due))
		s.work(append(fast, "-q", "other", "-c", "1", "--exec", "Any=true")...)
		killed := time.Now()
		eventually(t, "all to be promoted", func() bool { return s.do("ZCARD", s.keys.Schedule()) == int64(0) })
		t.Logf("%d were left for the last poller, which took %v", left, time.Since(killed))
		arrived := s.list(s.keys.Queue("later"))
		require.Len(t, arrived, due)
		for _, entry := range arrived {
			parsed, err := job.Parse(entry)
			require.NoError(t, err)
			jid := parsed.JID()
			require.True(t, jids[jid], "it is there twice, or was never pushed")
			delete(jids, jid)
		}
	})
}
