package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

const (
	// maxGates is how many gates are looked at in one call.
	maxGates = 64
	// gatesPause is the minimum time between two looks at gates. So a rate of more than 50 starts in a second
	// does not cost a call for each start.
	gatesPause = 20 * time.Millisecond
	// lapseEvery is how often admissions and leases are looked at, if there are any.
	lapseEvery = 5 * time.Second
	// limitsEvery is how often limits are removed that no process registers any more, and gates are looked at
	// that seem not to be due for long, because the clock of Redis was set back.
	limitsEvery = time.Minute
)

// gates is the state of a Poller for gates: what a gate admits when no run ends, because time has passed. The
// Poller reads which gates have waiters with each renewal of its lease. Without waiters, there is no other
// cost.
type gates struct {
	// nextAt is when the next gate is due, by this process' clock; zero if no gate has waiters.
	nextAt time.Time
	// lookedAt is when gates were last looked at.
	lookedAt time.Time
	// lapsing reports whether there are jobs that are admitted and have not started, or leases.
	lapsing bool
	// err is why the last reading that came with a renewal failed. Due jobs do not wait for gates.
	err error
	// lapsedAt is when these were last looked at, and limitsAt when limits were.
	lapsedAt, limitsAt time.Time
}

// A gateLook is a call that reads which gates have waiters, and another that reads whether there is anything
// that may lapse: admissions, or leases of slots without a job.
type gateLook struct {
	waiting lua.Ask[[]lua.Entry]
	lapsing driver.Call
}

func (p *Poller) readGates() gateLook {
	return gateLook{p.cfg.Keys.GatesByLook(false, maxGates), driver.Command("EXISTS", p.cfg.Keys.Admitted(), p.cfg.Keys.Leases())}
}

// plan records the replies to a gateLook, and returns the names of the gates that are due.
func (g *gates) plan(askedAt, redisNow time.Time, look gateLook, replies []driver.Reply) (due []string, err error) {
	waiting, err := look.waiting.Read(replies[0])
	if err = errors.Join(err, replies[1].Err); err != nil {
		return nil, fmt.Errorf("read which gates have waiters: %w", err)
	}
	count, _ := replies[1].Value.(int64)
	g.lapsing, g.nextAt = count > 0, time.Time{}
	for _, entry := range waiting {
		until := untilScore(entry.Score, redisNow)
		if until > 0 {
			g.due(askedAt.Add(until))
			break
		}
		due = append(due, entry.Bytes)
	}
	if len(due) > 0 {
		g.nextAt = askedAt
	}
	return due, nil
}

// due records that a gate is due at an instant.
func (g *gates) due(at time.Time) {
	if g.nextAt.IsZero() || at.Before(g.nextAt) {
		g.nextAt = at
	}
}

// untilScore returns the time until a score, in seconds; 0 for one that is past or no number.
func untilScore(score string, now time.Time) time.Duration {
	at, err := strconv.ParseFloat(score, 64)
	if err != nil {
		return 0
	}
	seconds := at - float64(now.UnixMicro())/1e6
	return time.Duration(min(max(seconds, 0), 1e6) * float64(time.Second))
}

// openGates admits the waiters of the gates that are due, and returns the time until the next one is.
func (p *Poller) openGates(ctx context.Context) (next time.Duration, err error) {
	g, now := &p.gates, time.Now()
	err, g.err = g.err, nil
	due := func() time.Duration { return max(g.nextAt.Sub(now), g.lookedAt.Add(gatesPause).Sub(now)) }
	if !g.nextAt.IsZero() && due() <= 0 {
		g.lookedAt = now
		err = errors.Join(err, p.admitDue(ctx))
	}
	if g.lapsing && now.Sub(g.lapsedAt) >= lapseEvery {
		g.lapsedAt = now
		err = errors.Join(err, p.lapse(ctx))
	}
	if now.Sub(g.limitsAt) >= limitsEvery {
		g.limitsAt = now
		err = errors.Join(err, p.expireLimits(ctx), p.admitFarAhead(ctx))
	}
	if g.nextAt.IsZero() {
		return p.cfg.Every, err
	}
	return min(due(), p.cfg.Every), err
}

// lookAtGates reads which gates are due.
func (p *Poller) lookAtGates(ctx context.Context) (due []string, err error) {
	askedAt, look := time.Now(), p.readGates()
	return p.gates.plan(askedAt, p.cfg.Clock.Now(), look, p.link.Do(ctx, look.waiting.Call, look.lapsing))
}

// admitDue admits the waiters of gates that are due, and reads when the next one is. It ends after some rounds,
// also if more gates are due: the waiters of a class that an operator resumes may be millions, and due jobs
// must not wait for them. The next pass follows soon.
func (p *Poller) admitDue(ctx context.Context) error {
	var errs error
	moved := 1
	for range maxRounds {
		due, err := p.lookAtGates(ctx)
		if err != nil || len(due) == 0 || moved == 0 {
			return errors.Join(errs, err)
		}
		var refused error
		if moved, refused, err = p.admit(ctx, due); err != nil {
			// Gates that cannot be looked at must not be looked at all the time.
			p.gates.nextAt = time.Now().Add(unusableFor)
			return errors.Join(errs, refused, err)
		}
		errs = errors.Join(errs, refused)
	}
	return errs
}

// admit lets each of these gates admit its waiters as far as it has room. A gate that Redis refuses to admit
// from is put off, so that it does not block the others. moved is how many waiters went to their queues and how
// many gates were put off, and refused is why the first of these was.
func (p *Poller) admit(ctx context.Context, names []string) (moved int, refused, err error) {
	queues, err := p.cfg.Keys.Heads(names).Do(ctx, p.link)
	if err != nil {
		return 0, nil, fmt.Errorf("read the next waiters: %w", err)
	}
	var putOff []driver.Call
	for range maxRounds {
		// A waiter goes to a queue that the call names. If the next one is of another queue, one more call
		// follows.
		asks, calls := lua.AskEach(indexes(len(names)), func(i int) lua.Ask[lua.Admitted] { return p.cfg.Keys.Admit(names[i], queues[i]) })
		var moreNames, moreQueues []string
		for i, reply := range p.link.Do(ctx, calls...) {
			admitted, err := asks[i].Read(reply)
			switch {
			case driver.Outage(err):
				return moved, refused, fmt.Errorf("admit waiters: %w", err)
			case err != nil:
				moved, refused = moved+1, cmp.Or(refused, fmt.Errorf("admit waiters of the gate %q: %w", names[i], err))
				putOff = append(putOff, p.cfg.Keys.PutOffGate(names[i], p.cfg.Clock.Now().Add(unusableFor)))
			default:
				moved += admitted.Moved
				if admitted.Moved > 0 {
					p.cfg.Log.Debug("admitted waiters", "gate", names[i], "queue", queues[i], "jobs", admitted.Moved)
				}
				if admitted.Next != "" {
					moreNames, moreQueues = append(moreNames, names[i]), append(moreQueues, admitted.Next)
				}
			}
		}
		if names, queues = moreNames, moreQueues; len(names) == 0 {
			break
		}
	}
	if len(putOff) > 0 {
		for _, reply := range p.link.Do(ctx, putOff...) {
			err = cmp.Or(err, reply.Err)
		}
	}
	return moved, refused, err
}

func indexes(count int) []int {
	all := make([]int, count)
	for i := range all {
		all[i] = i
	}
	return all
}

// lapse frees places of gates: those of admitted jobs that did not start, because they were deleted or taken by
// a program that does not know the limit, and those of callers of Do that have died.
func (p *Poller) lapse(ctx context.Context) error {
	free := func(ask lua.Ask[int], what, done, of string) error {
		freed, err := ask.Do(ctx, p.link)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if freed == lua.MaxItems { // there may be more
			p.gates.lapsedAt = time.Time{}
		}
		if freed > 0 {
			p.gates.due(time.Now())
			p.cfg.Log.Info(done, of, freed)
		}
		return nil
	}
	admissions, err := p.cfg.Keys.Admissions().Do(ctx, p.link)
	if err != nil {
		err = fmt.Errorf("read which jobs are admitted: %w", err)
	} else if len(admissions) > 0 {
		err = free(p.cfg.Keys.Lapse(admissions), "let admissions lapse", "admitted jobs did not start in time; others may start in their place", "jobs")
	}
	return errors.Join(err, free(p.cfg.Keys.FreeLeases(), "free slots without a job", "freed slots whose holders did not renew them", "slots"))
}

// expireLimits removes sizes that no process has registered for lua.KeepLimit, but for those of operators.
// Waiters of such a limit go back to their queues.
func (p *Poller) expireLimits(ctx context.Context) error {
	var names []lua.LimitChange
	for from := lua.FirstPage; ; {
		page, err := p.cfg.Keys.ReadLimits(from).Do(ctx, p.link)
		if err != nil {
			return fmt.Errorf("read the limits: %w", err)
		}
		for _, l := range page.Limits {
			if l.Source != lua.LimitOfOperator && p.cfg.Clock.Now().Sub(l.SeenAt) > lua.KeepLimit {
				names = append(names, lua.LimitChange{Name: l.Name})
			}
		}
		if from = page.Next; from == lua.LastPage {
			break
		}
	}
	for chunk := range slices.Chunk(names, lua.MaxItems) {
		words, err := p.cfg.Keys.ChangeLimits(lua.LimitExpire, chunk).Do(ctx, p.link)
		if err != nil {
			return fmt.Errorf("remove limits that no process registers: %w", err)
		}
		for i, word := range words {
			if word == lua.LimitRemoved {
				p.cfg.Log.Info("limit removed: no process registers it any more", "limit", chunk[i].Name)
			}
		}
	}
	return nil
}

// admitFarAhead looks at gates that seem not to be due for long: the clock of Redis may have been set back. It
// ends after some rounds; the next pass comes within limitsEvery.
func (p *Poller) admitFarAhead(ctx context.Context) (errs error) {
	for range maxRounds {
		latest, err := p.cfg.Keys.GatesByLook(true, maxGates).Do(ctx, p.link)
		if err != nil {
			return errors.Join(errs, fmt.Errorf("read which gates have waiters: %w", err))
		}
		var far []string
		for _, entry := range latest {
			if untilScore(entry.Score, p.cfg.Clock.Now()) > 2*lua.MaxLook {
				far = append(far, entry.Bytes)
			}
		}
		if len(far) == 0 {
			return errs
		}
		p.gates.due(time.Now())
		_, refused, err := p.admit(ctx, far)
		if errs = errors.Join(errs, refused, err); err != nil || len(far) < maxGates {
			return errs
		}
	}
	return errs
}
