package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/inspect"
)

// classesBody is what the page of metrics by class shows.
type classesBody struct {
	Windows  []choice
	Classes  []classRow
	Further  int
	Rules    []inspect.ClassRule
	Problems []string
	Long     bool // the window is too long for percentiles
	Step     string
	// FailedIn is the page with the jobs whose runs failed: that of retries, or of dead jobs if no job waits
	// for a retry; empty if there are neither, because the jobs ran again or were not kept.
	FailedIn string
}

type classRow struct {
	inspect.Class
	Rule  *inspect.ClassRule // nil for none
	Line  string             // the points of its runs a step, for a polyline
	Fails string             // and of its failures
	Most  int64              // the most runs of a step
	Rate  string             // of failures
}

var windows = map[string]time.Duration{"1h": time.Hour, "8h": 8 * time.Hour, "72h": 72 * time.Hour}

func (d *Dashboard) classes(v *visit) error {
	window := cmp.Or(oneOf(v.form.Get("window"), "1h", "8h", "72h"), "1h")
	found, err := d.inspector.Classes(v.ctx, inspect.ClassWindow{Last: windows[window]})
	if err != nil {
		return err
	}
	rules, problems, err := d.inspector.ClassRules(v.ctx)
	if err != nil {
		return err
	}
	body := classesBody{
		Rules:   rules,
		Windows: choices(window, [2]string{"1h", "1 hour"}, [2]string{"8h", "8 hours"}, [2]string{"72h", "3 days"}),
		Further: found.ClassCount - len(found.Classes), Problems: append(found.Problems, problems...), Long: window == "72h", Step: span(found.Step.Duration),
	}
	status, err := d.status(v.ctx)
	if err != nil {
		return err
	}
	switch {
	case status.Retries > 0:
		body.FailedIn = "retries"
	case status.Dead > 0:
		body.FailedIn = "dead"
	}
	for _, class := range found.Classes {
		row := classRow{Class: class}
		if at, ruled := slices.BinarySearchFunc(rules, class.Name, func(r inspect.ClassRule, name string) int { return strings.Compare(r.Class, name) }); ruled {
			row.Rule = &rules[at]
		}
		if class.Runs > 0 {
			row.Rate = fmt.Sprintf("%.1f %%", 100*float64(class.Failed)/float64(class.Runs))
		}
		steps := drawn(class.Steps)
		for _, step := range steps {
			row.Most = max(row.Most, step.Runs)
		}
		row.Line = points(steps, row.Most, func(s inspect.ClassStep) int64 { return s.Runs })
		row.Fails = points(steps, row.Most, func(s inspect.ClassStep) int64 { return s.Failed })
		body.Classes = append(body.Classes, row)
	}
	return d.show(v, "classes", page{Title: "Classes", Nav: "classes", Live: 10, Status: &status.Status, Body: body})
}

// drawn returns the steps that a plot shows. The last one is still being counted: as long as it has fewer runs
// than the one before, it would look like an outage.
func drawn(steps []inspect.ClassStep) []inspect.ClassStep {
	if last := len(steps) - 1; last > 0 && steps[last].Runs < steps[last-1].Runs {
		return steps[:last]
	}
	return steps
}

// The size of a small plot, in its own units.
const plotWidth, plotHeight = 160, 30

// maxPoints bounds the points of a small plot: there are not more pixels.
const maxPoints = plotWidth / 2

// points returns a small plot's line. Steps that fall on one point are added up.
func points(steps []inspect.ClassStep, most int64, of func(inspect.ClassStep) int64) string {
	if most == 0 || len(steps) < 2 {
		return ""
	}
	each := (len(steps) + maxPoints - 1) / maxPoints
	var out strings.Builder
	n := (len(steps) + each - 1) / each
	for i, chunk := range slices.Collect(slices.Chunk(steps, each)) {
		var highest int64
		for _, step := range chunk {
			highest = max(highest, of(step))
		}
		x := float64(i) * plotWidth / float64(max(n-1, 1))
		y := plotHeight - 1 - float64(highest)*(plotHeight-2)/float64(most)
		fmt.Fprintf(&out, "%.1f,%.1f ", x, y)
	}
	return strings.TrimSpace(out.String())
}
