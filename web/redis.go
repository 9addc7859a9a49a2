package web

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/belayq/belay/check"
)

// redisBody is what the page about Redis shows.
type redisBody struct {
	Findings  check.Findings // the worst first
	Bad, Warn int
}

// checkEvery is for how long findings serve further requests. A check takes about fifteen round trips, and what
// it reports changes slowly.
const checkEvery = 10 * time.Second

func (d *Dashboard) redis(v *visit) error {
	findings, err := d.findings.get(v.ctx, checkEvery, func(ctx context.Context) (check.Findings, error) {
		findings, err := check.Redis(ctx, d.lane, check.Config{Prefix: d.prefix})
		return worstFirst(findings), err
	})
	if err != nil {
		return err
	}
	body := redisBody{Findings: findings, Bad: findings.Count(check.SeverityBad), Warn: findings.Count(check.SeverityWarn)}
	return d.show(v, "redis", page{Title: "Health", Nav: "redis", Live: int(checkEvery / time.Second), Body: body})
}

func worstFirst(findings check.Findings) check.Findings {
	order := []check.Severity{check.SeverityBad, check.SeverityWarn, check.SeverityOK}
	return slices.SortedStableFunc(slices.Values(findings), func(a, b check.Finding) int {
		return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
	})
}
