package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/belayq/belay/inspect"
)

// A statusView shows one Status after another.
type statusView struct {
	out      io.Writer
	json     bool
	terminal bool // each picture takes the place of the one before
	last     inspect.Status
}

func newStatusView(out io.Writer, asJSON bool) *statusView {
	return &statusView{out: out, json: asJSON, terminal: !asJSON && isTerminal(out)}
}

// show prints one picture, in one write, so that a terminal does not flicker.
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

// speed is how many jobs ended a second since the last picture.
func (v *statusView) speed(s inspect.Status) string {
	between := s.At.Sub(v.last.At).Seconds()
	if v.last.At.IsZero() || between <= 0 || s.Processed < v.last.Processed {
		return ""
	}
	return fmt.Sprintf("   %.0f jobs/s, %.0f of them failed",
		float64(s.Processed-v.last.Processed)/between, float64(s.Failed-v.last.Failed)/between)
}

// watchStatus shows a picture every so often until ctx ends. A Redis that is away for a while is told of and asked again.
func watchStatus(ctx context.Context, view *statusView, errs io.Writer, every time.Duration, read func() (inspect.Status, error)) error {
	away := false
	for ctx.Err() == nil {
		status, err := read()
		switch {
		case err != nil && ctx.Err() != nil: // interrupted while it asked
		case err == nil:
			away = false
			if err := view.show(status, true); err != nil {
				return err
			}
		case !away:
			away = true
			_, _ = fmt.Fprintln(errs, "belay: status: "+err.Error()+"; asking on")
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
	return nil
}
