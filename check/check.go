package check

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

// Severity says how serious a Finding is.
type Severity string

const (
	// SeverityOK means that nothing is wrong.
	SeverityOK Severity = "ok"
	// SeverityWarn means that Belay works, but something may cause trouble or cannot be seen.
	SeverityWarn Severity = "warn"
	// SeverityBad means that Belay does not work, or will lose jobs or break another promise.
	SeverityBad Severity = "bad"
)

// A Finding is the result of one check.
type Finding struct {
	// Name is what was checked, in a word or two that do not change.
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	// Found says what was found and what follows from it. It may contain text from the server.
	Found string `json:"found"`
	// Advice says what to do; empty if there is nothing to do.
	Advice string `json:"advice"`
}

// Findings are the results of all checks, in reading order.
type Findings []Finding

// Worst returns the highest severity among the findings; SeverityOK if there are none.
func (f Findings) Worst() Severity {
	worst := SeverityOK
	for _, finding := range f {
		if finding.Severity == SeverityBad || finding.Severity == SeverityWarn && worst == SeverityOK {
			worst = finding.Severity
		}
	}
	return worst
}

// Count returns how many findings have a severity.
func (f Findings) Count(severity Severity) int {
	count := 0
	for _, finding := range f {
		if finding.Severity == severity {
			count++
		}
	}
	return count
}

// Config describes the worker that Redis is checked for. Zero fields have a worker's defaults.
type Config struct {
	// Prefix is put before every key, with a colon between. Default: none.
	Prefix string
	// Shards are the prefixes of the shards of a client, for Rule, in the place of Prefix. Default: no shards.
	Shards []string
	// Queues are the names of the queues to take from. Default: "default".
	Queues []string
	// PayloadLimit is the maximum length of a pushed payload in bytes. Default: job.DefaultPayloadLimit.
	PayloadLimit int
	// Unit is the unit of times in payloads. Default: job.Seconds.
	Unit job.TimeUnit
}

func (c Config) withDefaults() Config {
	if len(c.Queues) == 0 {
		c.Queues = []string{"default"}
	}
	if c.PayloadLimit == 0 {
		c.PayloadLimit = job.DefaultPayloadLimit
	}
	return c
}

// Redis reports whether a Redis and this user of it are fit for Belay, and what to do if they are not. It
// changes nothing. Facts that it may not read (CONFIG, on many managed services) are a Finding, and so is a
// server that refuses access. It returns an error if no Redis answers before ctx ends. It takes about fifteen
// round trips.
func Redis(ctx context.Context, client driver.Client, cfg Config) (Findings, error) {
	facts, err := readFacts(ctx, client, cfg.withDefaults(), Permissions{})
	if err != nil {
		return nil, fmt.Errorf("check Redis: %w", err)
	}
	return facts.findings(), nil
}

const (
	// versionCheck is the first check. With a server that is too old it is the only one.
	versionCheck     = "version"
	certificateCheck = "certificate"
	// sightCheck says what the other checks could not see.
	sightCheck = "sight"
)

// checks are all checks, in reading order. Each returns a Finding without a severity if it has nothing to
// say.
var checks = []struct {
	name  string
	check func(*facts) Finding
}{
	{versionCheck, checkVersion},
	{certificateCheck, checkCertificate},
	{"role", checkRole},
	{"cluster", checkCluster},
	{"scripts", checkScripts},
	{"permissions", checkPermissions},
	{"blocking", checkBlocking},
	{"presence", checkPresence},
	{"eviction", checkEviction},
	{"memory", checkMemory},
	{"persistence", checkPersistence},
	{"disk", checkDisk},
	{"replication", checkReplication},
	{"clock", checkClock},
	{"latency", checkLatency},
	{"clients", checkClients},
	{"idle connections", checkIdle},
	{"sizes", checkSizes},
	{"output buffers", checkOutput},
	{"sidekiq", checkSidekiq},
	{sightCheck, checkSight},
}

func (f *facts) findings() Findings {
	if f.refused != nil {
		finding := checkAccess(f)
		finding.Name = "access"
		return Findings{finding}
	}
	var findings Findings
	for _, c := range checks {
		if finding := c.check(f); finding.Severity != "" {
			finding.Name = c.name
			findings = append(findings, finding)
			if c.name == versionCheck && finding.Severity == SeverityBad {
				break // what else would be found follows from it, and the upgrade mends it
			}
		}
	}
	return findings
}

func ok(format string, args ...any) Finding {
	return Finding{Severity: SeverityOK, Found: fmt.Sprintf(format, args...)}
}

func warn(advice, format string, args ...any) Finding {
	return Finding{Severity: SeverityWarn, Found: fmt.Sprintf(format, args...), Advice: advice}
}

func bad(advice, format string, args ...any) Finding {
	return Finding{Severity: SeverityBad, Found: fmt.Sprintf(format, args...), Advice: advice}
}

// silence is the Finding of a check that has nothing to say.
var silence Finding

// logFindingsTimeout bounds the check at a start, which takes a tenth of a second and on a machine with other
// work many times as long. Nothing waits for it, and a worker whose Redis does not answer logs that itself.
const logFindingsTimeout = 30 * time.Second

// LogFindings checks Redis over a connection of its own and logs each finding that is not ok, at level warn. A
// worker calls it at its start, and runs regardless of the findings. It returns as soon as ctx ends. It logs
// nothing if Redis is away, or if the server has no version, such as miniredis in a program's tests. It does
// not log that settings cannot be seen, because a worker's user should not see them ([RoleWorker]). It asks for
// permissions only if may is the zero value: [Permitted] has asked before.
func LogFindings(ctx context.Context, client driver.Client, cfg Config, may Permissions, log *slog.Logger) {
	limited, cancel := context.WithTimeout(ctx, logFindingsTimeout)
	defer cancel()
	lane, err := client.Lane(1) // so that a slow check delays no other call
	if err != nil {
		return
	}
	defer context.AfterFunc(limited, func() { _ = lane.Close() })() // a call under way does not end with its context
	defer func() { _ = lane.Close() }()
	facts, err := readFacts(limited, lane, cfg.withDefaults(), may)
	if err != nil || ctx.Err() != nil || driver.Outage(lane.Do(limited, driver.Command("PING"))[0].Err) {
		return
	}
	findings := facts.findings()
	if first := findings[0]; first.Name == versionCheck && first.Severity == SeverityWarn {
		return // no Redis, but what stands in for it in a test
	}
	for _, finding := range findings {
		if finding.Name != sightCheck {
			finding.log(log)
		}
	}
}

// LogCertificate logs that nothing verifies the certificate of Redis, if so. It is for programs that do not
// call LogFindings. It sends nothing.
func LogCertificate(client driver.Client, log *slog.Logger) {
	if finding := checkCertificate(&facts{unverified: unverified(client)}); finding.Severity != "" {
		finding.Name = certificateCheck
		finding.log(log)
	}
}

// log logs a finding that is not ok.
func (f Finding) log(log *slog.Logger) {
	if f.Severity != SeverityOK {
		log.Warn(f.Found, "check", f.Name, "severity", string(f.Severity), "advice", f.Advice)
	}
}
