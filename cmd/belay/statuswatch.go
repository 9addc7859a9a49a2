package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/belayq/belay/inspect"
)

// A statusView prints one Status after another.
type statusView struct {
	out      io.Writer
	json     bool
	terminal bool // each page replaces the one before
	last     inspect.Status
}

func newStatusView(out io.Writer, asJSON bool) *statusView {
	return &statusView{out: out, json: asJSON, terminal: !asJSON && isTerminal(out)}
}

// show prints one page, in one write, so that a terminal does not flicker.
func (v *statusView) show(s inspect.Status, watched bool) error {
	if v.json {
		return printJSON(v.out, s)
	}
	var page bytes.Buffer
	if watched {
		_, _ = fmt.Fprintf(&page, "%s%s\n\n", s.At.Local().Format(time.DateTime), v.speed(s))
	}
	if err := printStatus(&page, s); err != nil {
		return err
	}
	if watched && !v.terminal {
		page.WriteString("\n")
	}
	v.last = s
	text := page.Bytes()
	if v.terminal && watched {
		if columns, lines, ok := windowOf(v.out); ok { // read each time, because the window may be resized
			text = fit(text, columns, lines)
		}
		text = append([]byte("\x1b[H\x1b[2J"), text...)
	}
	_, err := v.out.Write(text)
	return err
}

// speed returns how many jobs ended per second since the last page.
func (v *statusView) speed(s inspect.Status) string {
	between := s.At.Sub(v.last.At).Seconds()
	if v.last.At.IsZero() || between <= 0 || s.Processed < v.last.Processed {
		return ""
	}
	return fmt.Sprintf("   %.0f jobs/s, %.0f of them failed",
		float64(s.Processed-v.last.Processed)/between, float64(s.Failed-v.last.Failed)/between)
}

// watchStatus prints a page per interval until ctx ends. It reports an outage once and goes on.
func watchStatus(ctx context.Context, view *statusView, errs io.Writer, every time.Duration, read func() (inspect.Status, error)) error {
	away := false
	for ctx.Err() == nil {
		status, err := read()
		switch {
		case err != nil && ctx.Err() != nil: // interrupted
		case err == nil:
			away = false
			if err := view.show(status, true); err != nil {
				return err
			}
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
