package janitor

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/lua"
)

// A scene is a janitor that watches one victim, with instants that are counted from its first look.
type scene struct {
	*Janitor
	start  time.Duration
	beatAt time.Duration // the victim's last heartbeat
}

const (
	sceneBeat = 1500 * time.Millisecond
	sceneTTL  = 6 * time.Second
)

func newScene() *scene {
	s := &scene{Janitor: New(Config{Beat: sceneBeat, TTL: sceneTTL, Between: sceneBeat}), start: lua.SinceBoot() - time.Hour}
	s.beat(0)
	return s
}

// clock is Redis' time at an instant of the scene.
func (s *scene) clock(at time.Duration) time.Time { return time.Unix(1_700_000_000, 0).Add(at) }

// beat is a confirmed heartbeat of the watcher itself.
func (s *scene) beat(at time.Duration) {
	s.Look(lua.HeartbeatReply{State: lua.StateAlive, Now: s.clock(at)}, s.start+at, 0)
}

// seesAt is a look at which the victim has its subscription or not. It returns whether the victim is dead, and
// when the next look is due.
func (s *scene) seesAt(at time.Duration, subscribed bool, change ...func(*look)) (dead bool, due time.Duration) {
	l := look{sentAt: s.start + at, answeredAt: s.start + at, Present: lua.Present{Now: s.clock(at), Self: true, Sessions: []lua.PresentSession{
		{Identity: "watcher", Subscribed: true},
	}}}
	if expiry := s.clock(s.beatAt).Add(sceneTTL); subscribed {
		l.Sessions = append(l.Sessions, lua.PresentSession{Identity: "victim", Subscribed: true})
	} else if expiry.After(l.Now) {
		l.Sessions = append(l.Sessions, lua.PresentSession{Identity: "victim", Expiry: expiry})
	}
	for _, c := range change {
		c(&l)
	}
	gone, due := s.see([]look{l}, time.Second)
	for _, identity := range gone {
		s.watch.sight.sessions[identity].record = &lua.Record{Beat: sceneBeat, TTL: sceneTTL}
		_, due = s.see([]look{l}, time.Second)
	}
	return len(s.absent([]look{l})) > 0, due
}

func TestTheWatcherJudges(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	// present sees the victim for three seconds, in which it and the watcher beat as usual, the last time at
	// 3000 ms.
	present := func(t *testing.T) *scene {
		t.Helper()
		s := newScene()
		for at := time.Duration(0); at <= 3000*ms; at += 500 * ms {
			if at%sceneBeat == 0 {
				s.beat(at)
				s.beatAt = at
			}
			dead, _ := s.seesAt(at, true)
			require.False(t, dead)
		}
		return s
	}
	never := func(t *testing.T, s *scene, from time.Duration, subscribed bool, change ...func(*look)) {
		t.Helper()
		for at := from; at < from+3500*ms && at < s.beatAt+sceneTTL; at += 500 * ms {
			s.beat(at)
			dead, _ := s.seesAt(at, subscribed, change...)
			require.False(t, dead, "at %v", at)
		}
	}
	t.Run("two_looks_a_second_apart_and_no_heartbeat_for_its_interval_and_a_second_declare_it_dead", func(t *testing.T) {
		t.Parallel()
		s := present(t)
		dead, due := s.seesAt(4000*ms, false)
		require.False(t, dead)
		require.Equal(t, time.Second, due, "the last heartbeat was at 3000 ms, so 5500 ms is the instant, and a look comes each second")
		s.beat(4500 * ms)
		dead, due = s.seesAt(5000*ms, false)
		require.False(t, dead)
		require.Equal(t, 500*ms, due)
		dead, _ = s.seesAt(5499*ms, false)
		require.False(t, dead)
		dead, _ = s.seesAt(5500*ms, false)
		require.True(t, dead)
	})
	t.Run("one_look_declares_no_process_dead", func(t *testing.T) {
		t.Parallel()
		s := present(t)
		s.beat(4500 * ms)
		s.seesAt(4500*ms, true)
		s.beat(6000 * ms)
		dead, due := s.seesAt(6500*ms, false)
		require.False(t, dead)
		require.Equal(t, time.Second, due)
		s.beat(7000 * ms)
		dead, _ = s.seesAt(7499*ms, false)
		require.False(t, dead)
		dead, _ = s.seesAt(7500*ms, false)
		require.True(t, dead)
	})
	t.Run("a_heartbeat_clears_it_until_it_was_seen_again", func(t *testing.T) {
		t.Parallel()
		s := present(t)
		s.seesAt(4000*ms, false)
		s.beatAt = 4200 * ms
		never(t, s, 4500*ms, false)
	})
	t.Run("a_subscription_that_is_back_clears_it", func(t *testing.T) {
		t.Parallel()
		s := present(t)
		s.seesAt(4000*ms, false)
		s.seesAt(4500*ms, true)
		s.beat(4500 * ms)
		dead, _ := s.seesAt(5500*ms, false)
		require.False(t, dead)
	})
	t.Run("one_that_was_never_seen_is_not_gone", func(t *testing.T) {
		t.Parallel()
		never(t, newScene(), 0, false)
	})
	t.Run("a_watcher_that_is_not_there_itself_sees_nothing", func(t *testing.T) {
		t.Parallel()
		never(t, present(t), 3500*ms, false, func(l *look) { l.Self = false })
	})
	t.Run("looks_without_a_heartbeat_of_our_own_declare_no_process_dead", func(t *testing.T) {
		t.Parallel()
		s := present(t)
		for at := 3500 * ms; at < 6000*ms; at += 500 * ms {
			dead, _ := s.seesAt(at, false)
			require.False(t, dead)
		}
		s.beat(6000 * ms)
		dead, _ := s.seesAt(6100*ms, false)
		require.True(t, dead)
	})
	for name, breaks := range map[string]func(s *scene, l *look){
		"a_failed_heartbeat":       func(s *scene, _ *look) { s.Blind() },
		"a_gap_between_looks":      func(s *scene, _ *look) { s.watch.sight.sentAt -= maxLookGap },
		"a_clock_set_forward":      func(_ *scene, l *look) { l.Now = l.Now.Add(time.Second) },
		"a_clock_set_back":         func(_ *scene, l *look) { l.Now = l.Now.Add(-time.Second) },
		"a_new_subscription_of_us": func(s *scene, _ *look) { s.watch.sight.presence-- },
		"a_look_without_ourselves": func(_ *scene, l *look) { l.Self = false },
	} {
		t.Run(name+"_breaks_the_sight", func(t *testing.T) {
			t.Parallel()
			s := present(t)
			s.seesAt(4000*ms, false)
			s.beat(4500 * ms)
			s.seesAt(5000*ms, false, func(l *look) { breaks(s, l) })
			never(t, s, 5500*ms, false)
		})
	}
	t.Run("a_sight_that_is_younger_than_the_time_without_heartbeats_declares_no_process_dead", func(t *testing.T) {
		t.Parallel()
		s := newScene()
		s.seesAt(0, true)
		s.beatAt = -time.Second // it seems to, because the clock was set before the first look
		s.seesAt(500*ms, false)
		s.beat(1000 * ms)
		dead, _ := s.seesAt(2400*ms, false)
		require.False(t, dead)
		dead, _ = s.seesAt(2500*ms, false)
		require.True(t, dead)
	})
	t.Run("a_watcher_alone_looks_half_as_often", func(t *testing.T) {
		t.Parallel()
		s := newScene()
		_, due := s.seesAt(0, true, func(l *look) { l.Sessions = l.Sessions[:1] })
		require.Equal(t, aloneEvery, due)
		require.Less(t, aloneEvery, maxLookGap)
	})
	t.Run("one_that_has_lapsed_is_left_to_its_TTL", func(t *testing.T) {
		t.Parallel()
		s := present(t)
		s.seesAt(4000*ms, false)
		for at := 4500 * ms; at <= 9000*ms; at += 500 * ms {
			s.seesAt(at, false)
		}
		s.beat(9000 * ms)
		dead, _ := s.seesAt(9000*ms, false)
		require.False(t, dead)
	})
	t.Run("one_that_is_not_found_any_more_is_forgotten", func(t *testing.T) {
		t.Parallel()
		s := present(t)
		for at := 3500 * ms; at <= 5500*ms; at += 500 * ms {
			s.seesAt(at, true, func(l *look) { l.Sessions = l.Sessions[:1] })
		}
		require.Contains(t, s.watch.sight.sessions, "victim")
		s.seesAt(6000*ms, true, func(l *look) { l.Sessions = l.Sessions[:1] })
		require.NotContains(t, s.watch.sight.sessions, "victim")
	})
}

// Two processes watch; others do not look. Who is alone looks for nobody.
func TestAWatcherAndADeputy(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := newRig(t, open, "q")
		var holders []string
		for range 3 {
			j, p := r.newJanitor()
			r.look(j, p)
			for range 2 {
				_, err := j.Watch(context.Background(), p.Identity, lua.SinceBoot())
				require.NoError(t, err)
			}
			if j.watch.heldAs.Load() == p.Identity {
				require.Equal(t, p.Identity, r.do("GET", j.watch.lease))
				holders = append(holders, j.watch.lease)
			}
		}
		require.Equal(t, []string{r.keys.Watcher(), r.keys.Deputy()}, holders)
	})
}

// A session whose subscription is gone and that sends no heartbeat is dead, and its jobs are back, although it
// has not lapsed.
func TestRecoveryByAbsence(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := newRig(t, open, "q")
		r.push("q", 3)
		r.take(3)
		j, p := r.newJanitor()
		ctx, die := context.WithCancel(context.WithoutCancel(t.Context()))
		defer die()
		listen := func(ctx context.Context, identity string) {
			subscribed := make(chan struct{})
			go func() {
				_ = r.client.Listen(ctx, []string{r.keys.Presence(identity)}, 0, func() { close(subscribed) }, func(string) {})
			}()
			<-subscribed
		}
		own, leave := context.WithCancel(context.WithoutCancel(t.Context()))
		defer leave()
		listen(own, p.Identity)
		listen(ctx, r.victim)
		since := lua.SinceBoot()
		look := func() {
			r.look(j, p)
			_, err := j.Watch(context.Background(), p.Identity, since)
			require.NoError(t, err)
			require.NoError(t, j.Pass(context.Background(), p.Identity))
		}
		drivertest.Eventually(t, func() bool {
			look()
			return j.watch.sight != nil && j.watch.sight.sessions[r.victim] != nil && j.watch.sight.sessions[r.victim].present
		}, patience, 20*time.Millisecond)
		die()
		drivertest.Eventually(t, func() bool {
			look()
			return j.watch.sight.sessions[r.victim].record != nil
		}, patience, 20*time.Millisecond)
		// The victim lives for another moment. The record that the watcher has read does not name this queue.
		r.push("late", 1)
		word, err := r.keys.Serve(r.victim, []string{"q", "late"}, nil, 1).Do(r.ctx, r.client)
		require.NoError(t, err)
		require.Equal(t, lua.ServeServed, word)
		r.record.Queues = []string{"late"}
		r.take(1)
		drivertest.Eventually(t, func() bool { look(); return len(r.list(r.keys.Queue("q"))) == 3 }, patience, 20*time.Millisecond)
		drivertest.Eventually(t, func() bool { look(); return len(r.list(r.keys.Queue("late"))) == 1 }, patience, 20*time.Millisecond)
		require.Contains(t, r.list(r.keys.Queue("late"))[0], `"interrupted_count":1`)
		require.True(t, r.isTombstoned(r.victim))
		require.Contains(t, r.log.String(), "process declared dead: its subscription is gone")
	})
}
