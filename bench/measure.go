package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/bench/report"
)

// A measurement is one question that the bench answers.
type measurement struct {
	// name is the command, the file names, and how it is called everywhere.
	name string
	// title is the headline of its section, short the line in the list of commands.
	title, short string
	// what says what is measured, read how to read it: sentences of the report and of the command's help.
	what, read string
	// alone says that no peer takes part.
	alone bool
	// unused are the flags that it does not use.
	unused []string
	// metrics are the columns; the first is the headline.
	metrics []report.Metric
	// run adds rows to r: it starts subjects, and leaves out with b.leaveOut what it cannot measure.
	run func(ctx context.Context, b *bench, r *report.Result) error
}

// noUseFor returns the flags that it refuses.
func (m measurement) noUseFor() []string {
	if m.alone {
		return append(slices.Clone(m.unused), "peers", "install")
	}
	return m.unused
}

// help returns the help of the command.
func (m measurement) help() string {
	paragraphs := []string{m.short + ".", m.what, m.read}
	if unused := m.noUseFor(); len(unused) > 0 {
		paragraphs = append(paragraphs, "It does not use --"+strings.Join(unused, ", --")+".")
	}
	return strings.Join(paragraphs, "\n\n")
}

// allMeasures is the table of measures, in the order of the report.
func allMeasures() []measurement {
	return []measurement{
		drainMeasure, enqueueMeasure, memoryMeasure, backlogMeasure,
		latencyMeasure, scheduleMeasure, recoveryMeasure, fleetMeasure, rttMeasure, clusterMeasure, batchesMeasure,
		limitsMeasure, shardsMeasure,
	}
}

// measuredIn returns the names of the measures in results.
func measuredIn(results []*report.Result) []string {
	names := make([]string, len(results))
	for i, r := range results {
		names[i] = r.Measure
	}
	return names
}

// measure runs one measure and completes its result.
func (b *bench) measure(ctx context.Context, m measurement) (*report.Result, error) {
	r := &report.Result{
		Measure: m.name, Title: m.title, What: m.what, HowToRead: m.read, Metrics: m.metrics,
		Command: b.hide("go run ./bench " + strings.Join(os.Args[1:], " ")), Date: time.Now().UTC().Truncate(time.Second),
		Machine: report.ThisMachine(), Versions: b.versions,
	}
	if !m.alone {
		r.LeftOut = slices.Clone(b.leftOut)
	}
	b.say("%s: %s", m.name, m.short)
	if err := m.run(ctx, b, r); err != nil {
		return nil, err
	}
	if len(r.Rows) == 0 {
		return nil, fmt.Errorf("nothing was measured")
	}
	r.Finish()
	return r, nil
}

// A turn is one run of one contender in one case; rounds calls it once a repeat.
type turn struct {
	who  contender
	what string // the case, for progress
	run  func(ctx context.Context) (text string, err error)
}

// rounds takes the turns one after the other, repeatedly: A B A B, so that other work of the machine affects
// all of them alike. A peer that fails is logged and left out from then on; Belay and the floors must not
// fail.
func (b *bench) rounds(ctx context.Context, r *report.Result, repeats int, turns []turn) error {
	failed := map[string]bool{}
	for round := range repeats {
		for _, t := range turns {
			if failed[t.who.name] {
				continue
			}
			text, err := t.run(ctx)
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case err != nil && t.who.kind == report.Peer:
				failed[t.who.name] = true
				b.leaveOut(r, t.who.name, fmt.Sprintf("run %d of %d, %s: %v", round+1, repeats, t.what, err))
			case err != nil:
				return fmt.Errorf("%s, %s: %w", t.who.name, t.what, err)
			default:
				b.say("  %d/%d %-22s %-18s %s", round+1, repeats, t.who.name, t.what, text)
			}
		}
	}
	return nil
}

// leaveOut notes and logs that a subject is not measured.
func (b *bench) leaveOut(r *report.Result, name, why string) {
	b.say("  left out: %s: %s", name, why)
	r.LeftOut = append(r.LeftOut, report.LeftOut{Subject: name, Why: brief(b.hide(why))})
}

// brief shortens a reason for a table. The progress output has all of it, including stack traces.
func brief(why string) string {
	const most = 300 // three lines of a terminal
	words := []rune(strings.Join(strings.Fields(why), " "))
	if len(words) > most {
		return string(words[:most]) + "…"
	}
	return string(words)
}
