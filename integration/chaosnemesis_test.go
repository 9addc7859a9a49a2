package integration

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/internal/drivertest/slowlink"
)

// nemesis does what the plan says when it says so, and returns when all of it is over and undone.
func (r *chaos) nemesis() {
	var acting sync.WaitGroup
	var redis, fleet sync.Mutex
	for _, a := range r.plan.Acts {
		r.sleepUntil(a.At)
		acting.Go(func() {
			switch a.Target {
			case chaosplan.Worker:
				r.workers[a.Number].endure(a)
			case chaosplan.Pusher:
				r.pushers[a.Number].endure(a)
			case chaosplan.Redis:
				redis.Lock()
				defer redis.Unlock()
				r.redisEndures(a)
			case chaosplan.Fleet:
				fleet.Lock()
				defer fleet.Unlock()
				r.fleetStops(a.For)
			}
		})
	}
	acting.Wait()
	r.sleepUntil(r.plan.Settings.Span)
}

func (r *chaos) sleepUntil(at time.Duration) { time.Sleep(r.began + at - history.Now()) }

// endure does an act to the process of a slot. What was done to it before is over.
func (s *slot) endure(a chaosplan.Act) {
	s.acting.Lock()
	defer s.acting.Unlock()
	switch a.Fault {
	case chaosplan.Kill:
		if p := s.signal(syscall.SIGKILL, "KILL", a.For); p != nil {
			<-p.done
		}
	case chaosplan.Term:
		s.stop(s.signal(syscall.SIGTERM, "TERM", a.For))
	case chaosplan.Quiet:
		if s.signal(syscall.SIGTSTP, "TSTP", 0) != nil {
			time.Sleep(a.For)
			p := s.signal(syscall.SIGTERM, "TERM", 0)
			if p != nil { // a program that had only just begun did not know TSTP, which then stopped it
				_ = syscall.Kill(p.pid, syscall.SIGCONT)
			}
			s.stop(p)
		}
	case chaosplan.Stop, chaosplan.Freeze:
		s.rest(a)
	case chaosplan.HangUp:
		s.suffer(a, s.proxy.CloseConns)
	case chaosplan.Latency, chaosplan.Bandwidth:
		s.suffer(a, func() {
			s.link.Set(a.Link)
			time.Sleep(a.For)
			s.link.Set(slowlink.Speed{})
		})
	default:
		s.cut(a)
	}
}

// stop waits for the end of a process that was asked to stop.
func (s *slot) stop(p *chaosProcess) {
	if p == nil {
		return
	}
	select {
	case <-p.done:
	case <-time.After(s.run.plan.Settings.ShutdownTimeout + stopping):
		s.run.t.Errorf("%s does not stop", p.name)
		s.signal(syscall.SIGKILL, "KILL", 0)
	}
}

// rest has the process do nothing for a while.
func (s *slot) rest(a chaosplan.Act) {
	p := s.running()
	if p == nil {
		return
	}
	s.run.book.Append(history.Event{Kind: history.Begin, Proc: p.name, Fault: string(a.Fault)})
	wake := func() { _ = syscall.Kill(p.pid, syscall.SIGCONT) }
	thaw, err := func() {}, error(nil)
	if a.Fault == chaosplan.Freeze {
		if thaw, err = freeze(p.pid); err != nil {
			s.run.t.Logf("no cgroup freezer here, SIGSTOP serves: %v", err)
		}
	}
	if a.Fault == chaosplan.Stop || err != nil {
		_ = syscall.Kill(p.pid, syscall.SIGSTOP)
	}
	time.Sleep(a.For)
	thaw()
	wake()
	s.run.book.Append(history.Event{Kind: history.End, Proc: p.name, Fault: string(a.Fault)})
}

// cut does something to what passes between the slot and Redis.
func (s *slot) cut(a chaosplan.Act) {
	draw := rand.New(rand.NewPCG(a.Seed, 0))
	var rules []faultproxy.Rule
	switch a.Fault {
	case chaosplan.DropRequests:
		rules = losses(draw, faultproxy.Requests)
	case chaosplan.DropReplies:
		rules = losses(draw, faultproxy.Replies)
	case chaosplan.Unreceived:
		rules = []faultproxy.Rule{{On: faultproxy.Requests, Do: faultproxy.HalfOpen()}}
	case chaosplan.Unanswered:
		rules = []faultproxy.Rule{{On: faultproxy.Replies, Do: faultproxy.HalfOpen()}}
	case chaosplan.Blackhole:
		rules = []faultproxy.Rule{{On: faultproxy.Requests, Do: faultproxy.Blackhole()}}
	case chaosplan.Delay:
		by, err := time.ParseDuration(a.Text)
		if err != nil {
			s.run.t.Errorf("chaos: %v", err)
		}
		rules = []faultproxy.Rule{{On: faultproxy.Replies, Do: faultproxy.Delay(by)}}
	case chaosplan.Errors:
		rules = []faultproxy.Rule{{On: faultproxy.Requests, Do: faultproxy.Fail(a.Text)}}
	default:
		s.run.t.Errorf("chaos: there is no way to do %q to a process", a.Fault)
	}
	s.suffer(a, func() {
		s.proxy.Add(rules...)
		time.Sleep(a.For)
		s.proxy.Clear()
		// What was done to a connection lasts as long as the connection; the fault is to end here.
		s.proxy.CloseConns()
	})
}

// losses are rules that lose about every fifth frame of a direction, and its connection.
func losses(draw *rand.Rand, on faultproxy.Direction) []faultproxy.Rule {
	var rules []faultproxy.Rule
	for nth := 1; len(rules) < 40; nth += 1 + draw.IntN(9) {
		rules = append(rules, faultproxy.Rule{On: on, Nth: nth, Do: faultproxy.Close()})
	}
	return rules
}

// redisEndures does an act to Redis.
func (r *chaos) redisEndures(a chaosplan.Act) {
	ms := strconv.FormatInt(a.For.Milliseconds(), 10)
	switch a.Fault {
	case chaosplan.RedisStop:
		r.suffer(a.Fault, func() {
			r.clock.server.Stop()
			time.Sleep(a.For)
			r.clock.server.Cont()
		})
	case chaosplan.RedisKill:
		r.suffer(a.Fault, func() {
			r.clock.server.Kill()
			time.Sleep(a.For)
			r.clock.server.Restart(r.t)
		})
	case chaosplan.FlushScripts:
		r.suffer(a.Fault, func() { r.order("SCRIPT", "FLUSH") })
	case chaosplan.KillClients:
		r.suffer(a.Fault, func() { r.order("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") })
	case chaosplan.PauseAll, chaosplan.PauseWrites:
		mode := "ALL"
		if a.Fault == chaosplan.PauseWrites {
			mode = "WRITE"
		}
		r.suffer(a.Fault, func() {
			r.order("CLIENT", "PAUSE", ms, mode)
			time.Sleep(a.For)
		})
	case chaosplan.Full:
		r.suffer(a.Fault, func() {
			r.order("CONFIG", "SET", "maxmemory", "1")
			time.Sleep(a.For)
			r.order("CONFIG", "SET", "maxmemory", "0")
		})
	case chaosplan.Clock:
		r.shift(history.Begin, a.Shift)
		time.Sleep(a.For)
		r.shift(history.End, -a.Shift)
	default:
		r.t.Errorf("chaos: there is no way to do %q to Redis", a.Fault)
	}
}

// suffer writes down that a fault of Redis lasts while a function runs.
func (r *chaos) suffer(fault chaosplan.Fault, during func()) {
	r.book.Append(history.Event{Kind: history.Begin, Fault: string(fault)})
	during()
	r.book.Append(history.Event{Kind: history.End, Fault: string(fault)})
}

// shift sets Redis' clock on or back.
func (r *chaos) shift(kind history.Kind, by time.Duration) {
	r.clock.offset.Add(by.Microseconds())
	r.book.Append(history.Event{Kind: kind, Fault: string(chaosplan.Clock), Shift: by})
}

// order sends Redis a command of an operator.
func (r *chaos) order(words ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := r.clock.server.Do(ctx, words...); err != nil {
		r.t.Errorf("chaos: %s: %v", words[0], err)
	}
}

// fleetStops has all workers do nothing for a while.
func (r *chaos) fleetStops(span time.Duration) {
	r.suffer(chaosplan.FleetStop, func() {
		var stopped []*chaosProcess
		for _, w := range r.workers {
			if p := w.running(); p != nil {
				stopped = append(stopped, p)
				_ = syscall.Kill(p.pid, syscall.SIGSTOP)
			}
		}
		time.Sleep(span)
		for _, p := range stopped {
			_ = syscall.Kill(p.pid, syscall.SIGCONT)
		}
	})
}
