package integration

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/lua"
)

// A job whose take was executed but whose reply was lost starts within four beats.
const lostBeat = 500 * time.Millisecond

// address is how a call's script is named on the wire, so that a rule of the proxy can tell it from others.
func address(call driver.Call) string {
	_, sha := call.Script.Text(true)
	return sha
}

// Answers get lost, and with them a worker's knowledge of what it has been given and of what it has finished.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		take := address(s.keys.Take("", nil, 0, 0, 0).Call)
		settle := s.settleAddress()
		for _, lost := range []struct{ name, token string }{{"take", take}, {"settle", settle}} {
			t.Run("of a "+lost.name+" strands no job and counts none twice", func(t *testing.T) {
				// The worker has one processor: what it settles and what it takes next share a pipeline, of
				// which the proxy nearly always has passed on all when the first answer comes.
				late := 0
				for try := 1; ; try++ {
					r := newLostRig(t, s)
					first := r.push(300)
					r.book.awaitStart(first, 1)
					r.proxy.Add(faultproxy.DropReply(lost.token))
					second := r.push(0)
					inTime := r.startsInTime(second, r.book.awaitEnd(first).At, &late)
					if r.eachRanOnce(first, second) && inTime {
						break
					}
					require.Less(t, try, 10, "no job was stranded: the test proves nothing\n%s", r.worker.log())
				}
			})
		}
		t.Run("of a blocking move strands no job and counts none twice", func(t *testing.T) {
			late := 0
			for try := 1; ; try++ { // a wait may be over, with nothing, just before the push
				r := newLostRig(t, s)
				// Replies are judged when they come: this one is lost though its request has long been sent.
				eventually(t, "the idle worker to wait", func() bool { return r.proxy.Count("BLMOVE") > 0 })
				r.proxy.Add(faultproxy.DropReply("BLMOVE"))
				pushedAt := time.Now()
				first := r.push(0)
				inTime := r.startsInTime(first, pushedAt, &late)
				if r.eachRanOnce(first) && inTime {
					break
				}
				require.Less(t, try, 10, "no job was stranded: the test proves nothing\n%s", r.worker.log())
			}
		})
		t.Run("of every third exchange strands no job and counts none twice", func(t *testing.T) {
			r := newLostRig(t, s)
			for n := range 40 {
				r.proxy.Add(
					faultproxy.Rule{On: faultproxy.Replies, Token: take, Nth: 2 + 3*n, Do: faultproxy.Close()},
					faultproxy.Rule{On: faultproxy.Replies, Token: settle, Nth: 3 + 3*n, Do: faultproxy.Close()})
			}
			var jids []string
			for range 30 {
				jids = append(jids, r.push(0))
			}
			require.True(t, r.eachRanOnce(jids...), "no job was stranded: the test proves nothing\n%s", r.worker.log())
		})
	})
}

// settleAddress names the script that ends runs.
func (s *site) settleAddress() string {
	return address(s.keys.Settle(lua.Settlement{}).Call)
}

// A lostRig is one worker with one processor behind a proxy.
type lostRig struct {
	*site
	book   *ledger
	proxy  *faultproxy.Proxy
	worker *process
}

func newLostRig(t *testing.T, s *site) *lostRig {
	t.Helper()
	proxy := faultproxy.New(t, s.server.Addr())
	fresh := newSite(t, s.server)
	fresh.client, fresh.url = s.client, proxy.URL()
	r := &lostRig{site: fresh, book: newLedger(t), proxy: proxy}
	r.worker = r.work("-c", "1", "--heartbeat", lostBeat.String(), "--exec", r.book.exec("Lost"))
	return r
}

// push stores a job that takes so many milliseconds.
func (r *lostRig) push(ms int) string {
	r.t.Helper()
	return r.site.push("Lost", "default", jsonArgs(1, ms))
}

// startsInTime reports whether a job starts within four heartbeats. Late may be the worker, or a machine that
// did something else in its middle. A worker is so every time: the eighth late start is a failure.
func (r *lostRig) startsInTime(jid string, after time.Time, late *int) bool {
	r.t.Helper()
	took := r.book.awaitStart(jid, 1).At.Sub(after)
	r.t.Logf("started %v after the answer was lost", took)
	if took <= 4*lostBeat {
		return true
	}
	*late++
	require.Less(r.t, *late, 8, "a start %v after the answer was lost, for the eighth time", took)
	return false
}

// eachRanOnce lets one more job through, so that whatever was to come too much has come, and then counts. It
// answers whether a job was stranded at all.
func (r *lostRig) eachRanOnce(jids ...string) (stranded bool) {
	r.t.Helper()
	jids = append(jids, r.push(0))
	for _, jid := range jids {
		r.book.awaitEnd(jid)
	}
	want := strconv.Itoa(len(jids))
	eventually(r.t, "all to be counted", func() bool { return r.text(r.keys.Processed()) == want })
	r.worker.signal(syscall.SIGTERM)
	require.Zero(r.t, r.worker.wait(), r.worker.log())
	require.Equal(r.t, want, r.text(r.keys.Processed()))
	require.Empty(r.t, r.text(r.keys.Failed()))
	require.Len(r.t, r.book.starts(""), len(jids))
	require.Empty(r.t, r.set(r.keys.Retry()))
	require.Empty(r.t, r.list(r.keys.Queue("default")))
	require.False(r.t, r.worker.says("ownership lost"), r.worker.log())
	return r.worker.says("reclaimed")
}

// A blocking move can be executed after its process has gone: it lay in a socket, or in a network.
func TestLateMove(t *testing.T) {
	t.Parallel()
	ends := []struct {
		name string
		end  func(p *process)
	}{
		{"declared dead", func(p *process) { p.signal(syscall.SIGSTOP); p.kill() }},
		{"cleanly stopped", func(p *process) { p.signal(syscall.SIGTERM); require.Zero(p.t, p.wait(), p.log()) }},
	}
	for _, how := range ends {
		t.Run("of a process "+how.name+" loses no job", func(t *testing.T) {
			t.Parallel()
			eachClient(t, func(t *testing.T, s *site) { lateMove(t, s, how.end) })
		})
	}
}

func lateMove(t *testing.T, s *site, end func(p *process)) {
	book, proxy, gate := newLedger(t), faultproxy.New(t, s.server.Addr()), faultproxy.NewGate()
	t.Cleanup(gate.Open)
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "BLMOVE", Do: faultproxy.Hold(gate)})
	gone := s.by(proxy.URL()).work(append(fast, "--exec", book.exec("Late"))...)
	select {
	case <-gate.Arrived():
	case <-time.After(patience):
		require.FailNow(t, "the idle worker does not wait")
	}
	identity := gone.identities()[0]
	end(gone)

	// The survivor is kept busy, so that it does not take the job before the late move does, and not before it
	// is back.
	enough := newLeave(t)
	survivor := s.work(append(fast, "-c", "1", "--exec", book.exec("Late"), "--exec", book.exec("Busy", "-until", enough.path))...)
	busy := s.push("Busy", "default", jsonArgs(1, 0))
	book.awaitStart(busy, 1)
	eventually(t, "a tombstone", func() bool { return s.do("ZSCORE", s.keys.Tombstones(), identity) != nil })
	late := s.push("Late", "default", jsonArgs(2, 0))
	before := s.list(s.keys.Queue("default"))
	gate.Open()
	survivor.awaitLog("recovered late entries")
	require.Equal(t, before, s.list(s.keys.Queue("default")), "byte for byte: the job was in no process' hand")
	enough.give()
	book.awaitEnd(late)
	eventually(t, "both to be counted", func() bool { return s.text(s.keys.Processed()) == "2" })
	require.Len(t, book.starts(late), 1)
	require.Equal(t, survivor.pid, book.starts(late)[0].Worker)
}
