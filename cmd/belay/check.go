package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

const checkHelp = `Looks at whether Redis, and what this user may do there, are fit for Belay, and says what to do where they are not:
version, role, Cluster, scripts, the permissions of the user, eviction, memory, persistence, replication, clocks, round
trips, connections. It changes nothing. What may not be seen, as CONFIG on many managed services, is said to be so.

Each finding is ok, warn (it works, but is worth knowing) or bad (it does not work, loses jobs or breaks a promise).
"belay work" looks at the same when it starts, and logs what is not ok. Workers that are Go programs do not by themselves;
they can call inspect.Check.

With --json it is one JSON object, whose fields stay as they are:
  worst      the worst severity among the findings
  findings   [{name, severity, found, advice}]

Exit status: 0 when nothing is bad; 1 with a bad finding, or when no Redis answers; 2 for a wrong command line.`

func newCheck(at *redisFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Check whether Redis is fit for Belay",
		Long:    checkHelp,
		Example: "  belay check\n  belay check --redis redis://worker:secret@redis.example.com:6379/2 --prefix shop\n  belay check --json | jq -r '.findings[] | select(.severity != \"ok\") | .advice'",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			redis, err := at.open()
			if err != nil {
				return err
			}
			defer func() { _ = redis.Close() }()
			ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
			defer cancel()
			findings, err := inspect.Check(ctx, redis, inspect.CheckConfig{Prefix: at.prefix})
			if err != nil {
				return err
			}
			if err := printFindings(cmd.OutOrStdout(), findings, asJSON); err != nil {
				return err
			}
			if count := findings.Count(inspect.SeverityBad); count > 0 {
				return fmt.Errorf("%d of %d findings are bad", count, len(findings))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// printFindings writes a line for each finding, and one for what to do. Some of the text is the server's.
func printFindings(out io.Writer, findings inspect.Findings, asJSON bool) error {
	if asJSON {
		return printJSON(out, struct {
			Worst    inspect.Severity `json:"worst"`
			Findings inspect.Findings `json:"findings"`
		}{findings.Worst(), findings})
	}
	for _, finding := range findings {
		if _, err := fmt.Fprintf(out, "%-4s  %-16s  %s\n", finding.Severity, finding.Name, plain(finding.Found)); err != nil {
			return fmt.Errorf("print the findings: %w", err)
		}
		if finding.Advice != "" {
			if _, err := fmt.Fprintf(out, "%24s-> %s\n", "", plain(finding.Advice)); err != nil {
				return fmt.Errorf("print the findings: %w", err)
			}
		}
	}
	return nil
}
