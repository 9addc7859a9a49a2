package integration

import (
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// A signpost is an address that leads to another server from one moment on. Who is connected stays where he is:
// that is what a DNS name does, or a virtual address whose old holder lives on.
type signpost struct {
	listener net.Listener
	target   atomic.Pointer[string]
	mu       sync.Mutex
	conns    map[net.Conn]bool
}

func newSignpost(t *testing.T, target string) *signpost {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &signpost{listener: listener, conns: make(map[net.Conn]bool)}
	p.target.Store(&target)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.carry(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for conn := range p.conns {
			_ = conn.Close()
		}
		p.mu.Unlock()
		running.Wait()
	})
	return p
}

// lead leads every new connection to another server.
func (p *signpost) lead(to *drivertest.Server) {
	addr := to.Addr()
	p.target.Store(&addr)
}

func (p *signpost) url() string { return "redis://" + p.listener.Addr().String() }

// carry carries bytes both ways until either end closes.
func (p *signpost) carry(client net.Conn) {
	server, err := net.Dial("tcp", *p.target.Load())
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].Close()
			_ = way[1].Close()
		})
	}
	both.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// An operator fails over to a replica, and later back: the name leads to the other server, the old primary
// lives on as its replica, and every connection of a worker is still there. Each finds out by being refused;
// new jobs run within seconds, those in hand are settled where they lie now, none runs twice, none is lost.
func TestTheNameLeadsToAnotherPrimary(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			first, dir := recorded(t, "--repl-diskless-sync-delay", "0")
			t.Cleanup(func() { judge(t, first, dir) }) // it reads what happens on the other one, too
			second := drivertest.Start(t)
			post := newSignpost(t, first.Addr())
			s := newSite(t, first, second)
			s.client, s.url = client, withPassword(post.url(), "default")
			s.on(second).follow(first)

			book := newLedger(t)
			words := []string{"-c", "3", "--exec", book.exec("Any")}
			workers := []*process{s.work(words...), s.work(words...)}
			var done int
			for _, next := range []*drivertest.Server{second, first} {
				inHand := s.push("Any", "default", jsonArgs(1, 2000))
				book.awaitStart(inHand, 1)
				s.failOver(next)
				s = s.on(next)
				post.lead(next)
				done += s.runsOn(book, inHand)
			}
			require.Len(t, book.starts(""), done, "each once")
			require.Empty(t, s.set(s.keys.Retry()))
			for _, w := range workers {
				require.Len(t, w.identities(), 1, "no process was declared dead")
				require.NotContains(t, w.log(), "ownership lost")
				waitTerm(t, w)
			}
		})
	}
}

// runsOn makes sure that new jobs run in time on a primary that is new, and that the one in hand is settled
// there. It answers how many there were.
func (s *site) runsOn(book *ledger, inHand string) int {
	s.t.Helper()
	switched, before := time.Now(), len(book.starts(""))-1
	jids := []string{inHand}
	for n := range 6 {
		jids = append(jids, s.push("Any", "default", jsonArgs(n, 500)))
	}
	for _, jid := range jids {
		require.Less(s.t, book.awaitStart(jid, 1).At.Sub(switched), resumed, "the start of a job")
		book.awaitEnd(jid)
	}
	eventually(s.t, "all to be counted", func() bool { return s.text(s.keys.Processed()) == strconv.Itoa(before+len(jids)) })
	return len(jids)
}

// on is the same keyspace on another server.
func (s *site) on(server *drivertest.Server) *site {
	other := *s
	other.server = server
	return &other
}

// follow makes the server a replica of another, and waits until it has all that the other has.
func (s *site) follow(primary *drivertest.Server) {
	s.t.Helper()
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(s.t, err)
	s.do("REPLICAOF", host, port)
	s.awaitReplica()
}

// failOver makes the replica the primary and the primary its replica, without losing anything on the way.
func (s *site) failOver(to *drivertest.Server) {
	s.t.Helper()
	host, port, err := net.SplitHostPort(to.Addr())
	require.NoError(s.t, err)
	eventually(s.t, "the primary to know that its replica is there", func() bool {
		_, err := s.server.Do(s.t.Context(), "FAILOVER", "TO", host, port)
		return err == nil
	})
	s.awaitReplica()
}

func (s *site) awaitReplica() {
	s.t.Helper()
	eventually(s.t, "the replica to follow", func() bool { return follows(s.t, s.server) })
}

// follows is whether a server is a replica that is connected to its primary. Making a server a replica cuts
// its connections, so that a client that asks just then gets no answer.
func follows(t *testing.T, server *drivertest.Server) bool {
	answer, err := server.Do(t.Context(), "ROLE")
	role, _ := answer.([]any)
	return err == nil && role[0] == "slave" && role[3] == "connected"
}

// A failover loses that a job was taken: on the new primary it waits in its queue while it runs. Its process
// takes it again, does not run it beside itself, and the run that goes on ends it.
func TestAFailoverThatLosesATakeRunsNoJobBesideItself(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			first, second := drivertest.Start(t, "--repl-diskless-sync-delay", "0"), drivertest.Start(t)
			post := newSignpost(t, first.Addr())
			s := newSite(t, first, second)
			s.client, s.url = client, withPassword(post.url(), "default")
			book := newLedger(t)
			s.do("SADD", s.keys.Paused(), "default") // so that nothing is taken before it is on the replica
			s.on(second).follow(first)
			enough := newLeave(t)
			w := s.work("-c", "3", "--exec", book.exec("Any"), "--exec", book.exec("First", "-until", enough.path))
			eventually(t, "the worker to be known", func() bool { return len(w.identities()) == 1 })
			jid := s.push("First", "default", jsonArgs(1, 0))
			s.on(second).awaitQueue("default", 1)
			_, err := second.Do(t.Context(), "REPLICAOF", "NO", "ONE")
			require.NoError(t, err)
			s.do("SREM", s.keys.Paused(), "default")
			book.awaitStart(jid, 1)
			s.on(second).do("SREM", s.keys.Paused(), "default")
			post.lead(second)
			first.Kill()
			s = s.on(second)
			w.awaitLog("duplicate take ignored")
			enough.give()
			book.awaitEnd(jid)
			eventually(t, "its end to be counted", func() bool { return s.text(s.keys.Processed()) == "1" })
			other := s.push("Any", "default", jsonArgs(2, 0))
			book.awaitEnd(other)
			require.Len(t, book.starts(jid), 1)
			require.NotContains(t, w.log(), "ownership lost")
			waitTerm(t, w)
		})
	}
}

// awaitQueue waits until so many jobs wait in a queue.
func (s *site) awaitQueue(queue string, jobs int64) {
	s.t.Helper()
	eventually(s.t, "jobs to wait", func() bool {
		length, err := s.server.Do(s.t.Context(), "LLEN", s.keys.Queue(queue))
		return err == nil && length == jobs
	})
}
