package main

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/launcher"
)

// startCheckTimeout is how long the look at the start may take. A worker whose Redis does not answer has more to say than
// this, and says it.
const startCheckTimeout = 5 * time.Second

// logFindings looks at Redis beside a worker that starts, and logs a line for each finding that is not ok. The worker does
// not wait for it, neither at its start nor at its end, and works whatever is found. Ending ctx ends it.
func logFindings(ctx context.Context, cfg launcher.Config, log zerolog.Logger) {
	wanted := inspect.CheckConfig{Prefix: cfg.Prefix, PayloadLimit: cfg.PayloadLimit, Unit: cfg.Retry.Unit}
	for _, queue := range cfg.Queues {
		wanted.Queues = append(wanted.Queues, queue.Name)
	}
	go func() {
		limited, cancel := context.WithTimeout(ctx, startCheckTimeout)
		defer cancel()
		lane, err := cfg.Client.Lane(1) // what is slow here delays nothing else
		if err != nil {
			return
		}
		defer func() { _ = lane.Close() }()
		findings, err := inspect.Check(limited, lane, wanted)
		if err != nil || ctx.Err() != nil || driver.Outage(lane.Do(limited, driver.Command("PING"))[0].Err) {
			return // that Redis is away is told by the worker itself
		}
		for _, finding := range findings {
			if finding.Severity != inspect.SeverityOK {
				log.Warn().Str("check", finding.Name).Str("severity", string(finding.Severity)).Str("advice", finding.Advice).Msg(finding.Found)
			}
		}
	}()
}
