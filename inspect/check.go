package inspect

import (
	"context"
	"fmt"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

// Severity is how much a Finding matters.
type Severity string

const (
	// SeverityOK says that all is as it should be.
	SeverityOK Severity = "ok"
	// SeverityWarn says that Belay works, but something is worth knowing or cannot be seen.
	SeverityWarn Severity = "warn"
	// SeverityBad says that Belay does not work with this, or that it will lose jobs or break a promise.
	SeverityBad Severity = "bad"
)

// A Finding is one thing that Check looked at.
type Finding struct {
	// Name is what was looked at, in a word or two that do not change.
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	// Found is what is so, and what follows from it. It may hold text of the server's.
	Found string `json:"found"`
	// Advice is what to do about it; empty where there is nothing to do.
	Advice string `json:"advice"`
}

// Findings are all that Check found, in the order in which one would read them.
type Findings []Finding

// Worst is the highest severity among the findings; ok if there are none.
func (f Findings) Worst() Severity {
	worst := SeverityOK
	for _, finding := range f {
		if finding.Severity == SeverityBad || finding.Severity == SeverityWarn && worst == SeverityOK {
			worst = finding.Severity
		}
	}
	return worst
}

// Count is how many findings have a severity.
func (f Findings) Count(severity Severity) int {
	count := 0
	for _, finding := range f {
		if finding.Severity == severity {
			count++
		}
	}
	return count
}

// CheckConfig is what Check is to judge Redis for. Zero fields have the defaults of a worker.
type CheckConfig struct {
	// Prefix stands before every key, with a colon between. None.
	Prefix string
	// Queues are the names of the queues to take from. "default".
	Queues []string
	// PayloadLimit is the longest payload in bytes that is pushed. job.DefaultPayloadLimit.
	PayloadLimit int
	// Unit is how times are written into jobs. job.Seconds.
	Unit job.TimeUnit
}

func (c CheckConfig) withDefaults() CheckConfig {
	if len(c.Queues) == 0 {
		c.Queues = []string{"default"}
	}
	if c.PayloadLimit == 0 {
		c.PayloadLimit = job.DefaultPayloadLimit
	}
	return c
}

// Check looks at whether a Redis, and this user of it, are fit for Belay, and says what to do where they are not. It
// changes nothing. What may not be seen (CONFIG, on many managed services) is said to be so and is no error; nor is a
// server that lets nobody in, which is a bad Finding. The error is that no Redis answered, or not until ctx ended. It takes
// about fifteen round trips.
func Check(ctx context.Context, client driver.Client, cfg CheckConfig) (Findings, error) {
	facts, err := readFacts(ctx, client, cfg.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("check Redis: %w", err)
	}
	return facts.judge(), nil
}

// judges are all that is looked at. Each knows one thing, and answers a Finding without a severity where there is
// nothing to say.
var judges = []struct {
	name  string
	judge func(*facts) Finding
}{
	{"version", judgeVersion},
	{"role", judgeRole},
	{"cluster", judgeCluster},
	{"scripts", judgeScripts},
	{"permissions", judgePermissions},
	{"blocking", judgeBlocking},
	{"eviction", judgeEviction},
	{"memory", judgeMemory},
	{"persistence", judgePersistence},
	{"disk", judgeDisk},
	{"replication", judgeReplication},
	{"clock", judgeClock},
	{"latency", judgeLatency},
	{"clients", judgeClients},
	{"idle connections", judgeIdle},
	{"sizes", judgeSizes},
	{"output buffers", judgeOutput},
	{"sidekiq", judgeSidekiq},
	{"sight", judgeSight},
}

func (f *facts) judge() Findings {
	if f.refused != nil {
		finding := judgeAccess(f)
		finding.Name = "access"
		return Findings{finding}
	}
	var findings Findings
	for _, j := range judges {
		if finding := j.judge(f); finding.Severity != "" {
			finding.Name = j.name
			findings = append(findings, finding)
		}
	}
	return findings
}

// ok is a Finding that asks for nothing.
func ok(format string, args ...any) Finding {
	return Finding{Severity: SeverityOK, Found: fmt.Sprintf(format, args...)}
}

func warn(advice, format string, args ...any) Finding {
	return Finding{Severity: SeverityWarn, Found: fmt.Sprintf(format, args...), Advice: advice}
}

func bad(advice, format string, args ...any) Finding {
	return Finding{Severity: SeverityBad, Found: fmt.Sprintf(format, args...), Advice: advice}
}

// silence is what a judge answers that has nothing to say.
var silence Finding
