package inspect

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/driver"
)

// logFindingsTimeout bounds the check at a start. A worker whose Redis does not answer logs that itself.
const logFindingsTimeout = 5 * time.Second

// LogFindings checks Redis as Check does, over a connection of its own, and logs a line at level warn for each finding that is not
// ok. It is for the start of a worker, which runs regardless of the findings. It logs nothing when Redis is
// away, and returns when ctx ends.
func LogFindings(ctx context.Context, client driver.Client, cfg CheckConfig, log zerolog.Logger) {
	limited, cancel := context.WithTimeout(ctx, logFindingsTimeout)
	defer cancel()
	lane, err := client.Lane(1) // a slow check delays nothing else
	if err != nil {
		return
	}
	defer func() { _ = lane.Close() }()
	findings, err := Check(limited, lane, cfg)
	if err != nil || ctx.Err() != nil || driver.Outage(lane.Do(limited, driver.Command("PING"))[0].Err) {
		return
	}
	for _, finding := range findings {
		if finding.Severity != SeverityOK {
			log.Warn().Str("check", finding.Name).Str("severity", string(finding.Severity)).Str("advice", finding.Advice).Msg(finding.Found)
		}
	}
}
