package launcher

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/driver"
)

// A duty is something the process does again and again beside running jobs. A pass neither loops nor sleeps; it may ask
// to be called again sooner or later than after the duty's period.
type duty struct {
	name   string
	period time.Duration
	pass   func(ctx context.Context) (next time.Duration, err error)
	// intake says that the duty brings work in, and ends when the process goes quiet.
	intake bool
	// now, if set, brings a pass before its time.
	now <-chan struct{}
}

// announceEvery is how often Sidekiq's readers get news of us; they keep a process for a minute.
const announceEvery = 5 * time.Second

// leastRest is how long at least a duty with a short period leaves Redis alone after a failure, or nearly.
const leastRest = 500 * time.Millisecond

// duties is the table of everything the process does besides.
func (l *Launcher) duties() []duty {
	return []duty{
		{name: "beat", period: l.cfg.Beat, pass: each(l.beat)},
		// Whoever quiets a process wants to see it quiet.
		{name: "announce", period: announceEvery, pass: each(l.announce), now: l.changed},
		// Four times a beat, because what it waits for is a drawn fraction of one. A pass without a victim does nothing.
		{name: "janitor", period: l.cfg.Beat / 4, pass: each(func(ctx context.Context) error { return l.janitor.Pass(ctx, l.Identity()) })},
		{name: "sweep", period: l.cfg.Beat, pass: each(func(ctx context.Context) error { return l.janitor.Sweep(ctx, l.Identity()) })},
		{name: "poll", period: l.cfg.Poll, pass: func(ctx context.Context) (time.Duration, error) { return l.poller.Pass(ctx, l.Identity()) }, intake: true},
	}
}

// each is a pass that is content with its duty's period.
func each(pass func(context.Context) error) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) { return 0, pass(ctx) }
}

// startDuties runs the table until ctx ends, each duty in a goroutine of its own.
func (l *Launcher) startDuties(ctx context.Context, running *sync.WaitGroup) {
	for _, d := range l.duties() {
		running.Go(func() { l.loop(ctx, d) })
	}
}

func (l *Launcher) loop(ctx context.Context, d duty) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-d.now:
		}
		if d.intake && l.quiet.Load() {
			return
		}
		deadline, cancel := context.WithTimeout(ctx, max(l.vitalsDeadline(), 100*time.Millisecond))
		next, err := d.pass(deadline)
		cancel()
		if next == 0 {
			next = d.period
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			l.report.fail(l.cfg.Log, d.name, err)
			// Sooner than a period, so that a short outage costs no life; not as often as a duty with a short one would.
			rest := max(min(d.period, l.vitalsDeadline()), min(leastRest, l.vitalsDeadline()))
			next = rest/4 + rand.N(rest/2)
		default:
			l.report.succeed(l.cfg.Log, d.name)
		}
		timer.Reset(next)
	}
}

// outage says once that the vitals cannot reach Redis, and once that they can again, however many duties notice.
type outage struct {
	mu      sync.Mutex
	failing map[string]bool
	since   time.Time
	refused map[string]time.Time
}

func (o *outage) fail(log *zerolog.Logger, what string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failing == nil {
		o.failing = make(map[string]bool)
	}
	if !driver.Outage(err) {
		o.refuse(log, what, err)
		return
	}
	first := len(o.failing) == 0
	o.failing[what] = true
	if first {
		o.since = time.Now()
		log.Warn().Err(err).Str("duty", what).Msg("redis does not hear us: beats and recoveries wait")
	}
}

// refuse says at most once a minute what Redis hears and will not do (a wrong type, a denied command).
func (o *outage) refuse(log *zerolog.Logger, what string, err error) {
	if time.Since(o.refused[what]) < time.Minute {
		return
	}
	if o.refused == nil {
		o.refused = make(map[string]time.Time)
	}
	o.refused[what] = time.Now()
	log.Error().Err(err).Str("duty", what).Msg("redis refuses: it is tried again, but needs somebody's help")
}

func (o *outage) succeed(log *zerolog.Logger, what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failing[what] {
		return
	}
	delete(o.failing, what)
	if len(o.failing) == 0 {
		log.Info().Dur("away_ms", time.Since(o.since)).Msg("redis hears us again")
	}
}
