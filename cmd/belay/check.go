package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/inspect"
)

const checkHelp = `Checks whether Redis, and the permissions of this user, are fit for Belay, and advises what to change:
version, role, Cluster, scripts, the permissions of the user, eviction, memory, persistence, replication, clocks, round
trips, connections. It changes nothing. It reports what it is not allowed to read, such as CONFIG on many managed services.

Each finding is ok, warn (it works, but is worth knowing) or bad (it does not work, loses jobs or breaks a promise).
"belay work" checks the same at its start, and logs what is not ok. Workers that are Go programs can call check.Redis.

With --acl ROLE it prints an ACL SETUSER command instead, for redis-cli: it lets the user of --user do in this prefix
what the programs of that role do, and nothing else. It needs no Redis, and it neither sets nor changes a password.
With shards the user gets this on all of them: run the command on each of their servers, and on each node of a Cluster.
  worker     runs jobs and pushes them: belay work, belay return
  producer   pushes jobs: belay push. It can neither read nor delete what waits
  operator   sees everything and acts on it: belay web, top, queues, dead, cancel, periodic and the like
  dashboard  sees the same and changes nothing: belay web --read-only, status, find, the lists
A program that does several of these, such as a worker that cancels jobs, needs a user with both rules: leave out what
stands before -@all in the second one, and -@all.`

func newCheck(at *redisFlags) *cobra.Command {
	var role, user string
	cmd := withJSON(&cobra.Command{
		Use:   "check",
		Short: "Check whether Redis is fit for Belay, or print the permissions that a program needs",
		Long:  checkHelp,
		Example: `  belay check
  belay check --redis redis://worker:secret@redis.example.com:6379/2 --prefix shop
  belay check --json | jq -r '.findings[] | select(.severity != "ok") | .advice'
  belay check --acl worker --user shop-worker --prefix shop | redis-cli   # then: ACL SETUSER shop-worker >PASSWORD`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("acl") || cmd.Flags().Changed("user") {
				return printRule(cmd, at, check.Role(role), user)
			}
			return withShardsOf(at, func(cmd *cobra.Command, c *client.Client, shards []inspect.Shard, _ []string) error {
				return perShard(cmd, shards, func(shard inspect.Shard) error { return printChecks(cmd, spaceOf(c, shard)) })
			})(cmd, args)
		},
	})
	cmd.Flags().StringVar(&role, "acl", "", "print the permissions of a `ROLE`: worker, producer, operator or dashboard; with --user")
	cmd.Flags().StringVar(&user, "user", "", "the Redis user `NAME` that --acl is for")
	return cmd
}

func printChecks(cmd *cobra.Command, space client.Space) error {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	findings, err := check.Redis(ctx, space.Driver, check.Config{Prefix: space.Prefix})
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
}

// printRule prints the permissions of a role.
func printRule(cmd *cobra.Command, at *redisFlags, role check.Role, user string) error {
	c, shards, err := at.connectChosen() // it connects to nothing
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	var prefixes []string
	for _, shard := range shards {
		prefixes = append(prefixes, spaceOf(c, shard).Prefix)
	}
	switch {
	case !slices.Contains(check.Roles(), role):
		return usage("--acl %q: it is worker, producer, operator or dashboard", string(role))
	case user == "":
		return usage("--acl needs --user NAME, the Redis user that gets the permissions")
	}
	rule, err := check.Rule(role, user, check.Config{Shards: prefixes})
	if err != nil {
		return usage("--user: %w", err)
	}
	return show(cmd, aclRule{role, user, rule}, func(t *table) { t.row(rule) })
}

// aclRule is what --acl prints with --json.
type aclRule struct {
	Role check.Role `json:"role"`
	User string     `json:"user"`
	Rule string     `json:"rule"`
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
