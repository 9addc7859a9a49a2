package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/check"
	"github.com/belayq/belay/internal/drivertest/slowlink"
)

// carryLinks are links on which a call of fixed size and fixed deadline never succeeds. The relay of an outbox has
// its own in integration/postgres.
func carryLinks() []linkTrial {
	at := func(play string, mbit int64, payload int, client string) linkTrial {
		return linkTrial{play: play, speed: slowlink.Speed{RoundTrip: 100 * time.Millisecond, BitsPerSecond: mbit * slowlink.Mbit},
			payload: payload, beat: 1500 * time.Millisecond, client: client}
	}
	// A recovered job of a program has its cursor read before its start, on a connection of its own.
	cursors := linkTrial{play: "kill", speed: slowlink.Speed{RoundTrip: 500 * time.Millisecond, BitsPerSecond: 10 * slowlink.Mbit},
		payload: 1000, beat: 500 * time.Millisecond, client: "go-redis"}
	return []linkTrial{
		cursors, at("retry", 5, 15_000, "go-redis"), at("find", 5, 15_000, "rueidis"), at("push", 1, 900_000, "go-redis"), at("push", 1, 900_000, "rueidis"),
		at("once", 1, 900_000, "go-redis"), at("bulk", 5, 15_000, "rueidis"), at("register", 4, 28_000, "go-redis"),
	}
}

// carried is how many jobs of 15 kB are pushed, searched and retried: their first page of 256 is 3.8 MB.
const carried = 300

// filling is the argument of a job of this size.
func (l linkTrial) filling() string { return strings.Repeat("x", l.payload) }

// takesLongest is within what time this many bytes pass the link, each in both directions, and all in vain once.
func (l linkTrial) takesLongest(bytes int) time.Duration {
	return l.bound(tripsPromoted, 1, 1) + 4*time.Duration(bytes)*8*time.Second/time.Duration(l.speed.BitsPerSecond)
}

// pushOverALink: a large job is pushed by a call without a deadline, and its outcome is known.
func pushOverALink(t *testing.T, l linkTrial) { l.pushes(t, 1) }

// pushOnceOverALink: the same for a job that the client would send again.
func pushOnceOverALink(t *testing.T, l linkTrial) { l.pushes(t, 1, belay.PushOnce()) }

// bulkOverALink: many jobs are pushed in slices that the link carries.
func bulkOverALink(t *testing.T, l linkTrial) { l.pushes(t, carried) }

func (l linkTrial) pushes(t *testing.T, count int, options ...belay.JobOption) {
	t.Helper()
	s := l.site(t)
	class := belay.Define[string]("Any")
	client := s.apartOf(check.RoleProducer, slowlink.New(t, s.server.Addr(), l.speed).URL())
	jobs := make([]belay.RawJob, count)
	for n := range jobs {
		jobs[n] = class.Job(l.filling(), options...)
	}
	began := time.Now()
	receipts, err := client.PushMany(context.WithoutCancel(t.Context()), slices.Values(jobs))
	require.NoError(t, err, "after %v", time.Since(began))
	require.Len(t, receipts, count)
	require.Equal(t, count, s.number("LLEN", s.keys.Queue("default")))
	require.Less(t, time.Since(began), l.takesLongest(count*l.payload))
}

// retryOverALink: an operator retries large dead jobs, and every one of them moves.
func retryOverALink(t *testing.T, l linkTrial) {
	s := newSite(t, audited(t, plantDead...))
	s.client = l.client
	for n, payload := range l.payloads(carried) {
		s.do("ZADD", s.keys.Dead(), fmt.Sprint(1_700_000_000+n), payload)
	}
	began := time.Now()
	out, errs, status := s.by(slowlink.New(t, s.server.Addr(), l.speed).URL()).belay("dead", "retry", "--all")
	require.Zero(t, status, "after %v: %s%s", time.Since(began), out, errs)
	require.Contains(t, out, fmt.Sprintf("%d retried", carried))
	require.Equal(t, carried, s.number("LLEN", s.keys.Queue("default")))
	require.Less(t, time.Since(began), l.takesLongest(3*carried*l.payload))
}

// findOverALink: a job behind large ones is found.
func findOverALink(t *testing.T, l linkTrial) {
	s := l.site(t)
	sought := newJID()
	s.queue(append(l.payloads(carried), rubyPayload("Sought", "default", "[]", sought)))
	began := time.Now()
	out, errs, status := s.by(slowlink.New(t, s.server.Addr(), l.speed).URL()).belay("find", "--class", "Sought", "--timeout", "1m")
	require.Zero(t, status, "after %v: %s%s", time.Since(began), out, errs)
	require.Contains(t, out, sought)
	require.Less(t, time.Since(began), l.takesLongest(carried*l.payload))
}

// registerOverALink: a worker registers many large periodic jobs, and does not log that Redis is away.
func registerOverALink(t *testing.T, l linkTrial) {
	s := l.site(t)
	var logged log
	link := slowlink.New(t, s.server.Addr(), l.speed)
	server, err := belay.NewServer(s.apartOf(check.RoleWorker, link.URL()), belay.ServerConfig{
		Logger: belay.Zerolog(zerolog.New(&logged)),
	})
	require.NoError(t, err)
	class := belay.Define[string]("Any")
	class.Handle(server, func(context.Context, string) error { return nil })
	const definitions = 64
	for n := range definitions {
		require.NoError(t, server.Schedule(belay.Periodic{Name: fmt.Sprintf("job %d", n), Cron: "0 0 1 1 *", Job: class.Job(l.filling())}))
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-ended)
		require.NotContains(t, strings.Join(logged.complaints(), ""), "redis is away")
	}()
	within(s, link, l.takesLongest(definitions*l.payload), definitions, func() int { return s.number("HLEN", s.keys.PeriodicDefinitions()) })
}
