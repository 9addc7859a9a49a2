package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/driver"
)

const checkHelp = `Checks whether Redis, and the permissions of this user, are fit for Belay, and advises what to change:
version, role, Cluster, scripts, the permissions of the user, eviction, memory, persistence, replication, clocks, round
trips, connections. It changes nothing. It reports what it is not allowed to read, such as CONFIG on many managed services.

Each finding is ok, warn (it works, but is worth knowing) or bad (it does not work, loses jobs or breaks a promise).
"belay work" checks the same at its start, and logs what is not ok. Workers that are Go programs can call check.Redis.`

func newCheck(at *redisFlags) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "check",
		Short: "Check whether Redis is fit for Belay",
		Long:  checkHelp,
		Example: `  belay check
  belay check --redis redis://worker:secret@redis.example.com:6379/2 --prefix shop
  belay check --json | jq -r '.findings[] | select(.severity != "ok") | .advice'`,
		Args: noArgs,
		RunE: withRedis(at, func(cmd *cobra.Command, redis driver.Client, _ []string) error {
			ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
			defer cancel()
			findings, err := check.Redis(ctx, redis, check.Config{Prefix: at.prefix})
			if err != nil {
				return err
			}
			if err := show(cmd, checked{findings.Worst(), findings}, func(t *table) { printFindings(t, findings) }); err != nil {
				return err
			}
			if count := findings.Count(check.SeverityBad); count > 0 {
				return fmt.Errorf("%d of %d findings are bad", count, len(findings))
			}
			return nil
		}),
	})
}

// checked is what --json prints.
type checked struct {
	Worst    check.Severity `json:"worst"`
	Findings check.Findings `json:"findings"`
}

// printFindings prints a line for each finding, and one for its advice. Some of the text comes from the
// server.
func printFindings(t *table, findings check.Findings) {
	for _, finding := range findings {
		t.row(fmt.Sprintf("%-4s  %-16s  %s", finding.Severity, finding.Name, finding.Found))
		if finding.Advice != "" {
			t.row(fmt.Sprintf("%24s-> %s", "", finding.Advice))
		}
	}
}
