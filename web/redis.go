package web

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/belayq/belay/check"
)

// redisBody is what the page about Redis shows.
type redisBody struct {
	Findings  check.Findings // the worst first
	Bad, Warn int
}

// A checkup keeps what package check found last.
type checkup struct {
	mutex    sync.Mutex // held during a check, so that concurrent requests share one
	findings check.Findings
	readAt   time.Time
}

// checkEvery is for how long findings serve further requests. A check takes about fifteen round trips, and what it
// reports changes slowly.
const checkEvery = 10 * time.Second

func (d *Dashboard) redis(v *visit) error {
	findings, err := d.checkup.read(v.ctx, func(ctx context.Context) (check.Findings, error) {
		return check.Redis(ctx, d.lane, check.Config{Prefix: d.cfg.Prefix})
	})
	if err != nil {
		return err
	}
	body := redisBody{Findings: findings, Bad: findings.Count(check.SeverityBad), Warn: findings.Count(check.SeverityWarn)}
	return d.show(v, "redis", page{Title: "Redis", Nav: "redis", Live: int(checkEvery / time.Second), Body: body})
}

// read returns the findings, the worst first, at most checkEvery old.
func (c *checkup) read(ctx context.Context, now func(context.Context) (check.Findings, error)) (check.Findings, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !c.readAt.IsZero() && time.Since(c.readAt) < checkEvery {
		return c.findings, nil
	}
	// Not the request's own cancellation: the findings are for the others too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout/2)
	defer cancel()
	findings, err := now(ctx)
	if err != nil {
		return nil, err
	}
	order := map[check.Severity]int{check.SeverityBad: 0, check.SeverityWarn: 1, check.SeverityOK: 2}
	slices.SortStableFunc(findings, func(a, b check.Finding) int { return cmp.Compare(order[a.Severity], order[b.Severity]) })
	c.findings, c.readAt = findings, time.Now()
	return findings, nil
}
