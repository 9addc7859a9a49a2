package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/belayq/belay/inspect"
)

// watchStatus prints a page per interval until ctx ends, each in one write. It reports an outage once and goes
// on.
func watchStatus(
	ctx context.Context, out io.Writer, asJSON bool, errs io.Writer, every time.Duration, read func() (inspect.Status, error),
) error {
	away := false
	var last inspect.Status
	for ctx.Err() == nil {
		status, err := read()
		switch {
		case err != nil && ctx.Err() != nil: // interrupted
		case err == nil:
			away = false
			var page bytes.Buffer
			if !asJSON {
				_, _ = fmt.Fprintf(&page, "%s%s\n\n", status.At.Local().Format(time.DateTime), speed(last, status))
			}
			_ = printStatus(&page, asJSON, status) // to a buffer
			if !asJSON {
				page.WriteString("\n")
			}
			if _, err := page.WriteTo(out); err != nil {
				return err
			}
			last = status
		case !away:
			away = true
			_, _ = fmt.Fprintln(errs, "belay: status: "+err.Error()+"; trying again")
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
	return nil
}

// speed returns how many jobs ended per second between two reads.
func speed(last, s inspect.Status) string {
	between := s.At.Sub(last.At).Seconds()
	if last.At.IsZero() || between <= 0 || s.Processed < last.Processed {
		return ""
	}
	return fmt.Sprintf("   %.0f jobs/s, %.0f of them failed",
		float64(s.Processed-last.Processed)/between, float64(s.Failed-last.Failed)/between)
}
