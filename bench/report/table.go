package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is the result as a table for a terminal, with all that one must know to quote it.
func Table(r *Result) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s\n%s\n%s, %s\n\n", r.Measure, r.Title, r.Command, r.Machine, r.Date.Format("2006-01-02"))
	lines := cells(r)
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, text := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	for _, line := range lines {
		var padded []string
		for i, text := range line {
			blanks := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if i < names { // names to the left, figures to the right
				padded = append(padded, text+blanks)
			} else {
				padded = append(padded, blanks+text)
			}
		}
		out.WriteString("  " + strings.TrimRight(strings.Join(padded, "  "), " ") + "\n")
	}
	out.WriteString("\n")
	for _, line := range belowTable(r) {
		out.WriteString("  " + line + "\n")
	}
	return out.String()
}

// belowTable are the sentences without which the table would mislead.
func belowTable(r *Result) []string {
	var lines []string
	if base := r.baseName(); base != "" {
		lines = append(lines, figuresAre(r)+"; ratio is to "+base+".")
	}
	for _, row := range r.subjects() {
		if row.Settings != "" {
			lines = append(lines, fmt.Sprintf("%s: %s.", row.Name(), row.Settings))
		}
	}
	lines = append(lines, r.Notes...)
	for _, out := range r.LeftOut {
		word := "Left out"
		if slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Subject == out.Subject }) {
			word = "Incomplete: the figures are of what ran before it failed"
		}
		lines = append(lines, fmt.Sprintf("%s: %s: %s", word, out.Subject, out.Why))
	}
	return lines
}

// figuresAre says what a figure of the table is.
func figuresAre(r *Result) string {
	if r.maxRuns() == 1 {
		return "Figures are of one run each"
	}
	return "Figures are medians (least–most) of as many runs as the column says, or n"
}

func (r *Result) baseName() string {
	for _, row := range r.Rows {
		if row.Base != "" {
			return row.Base
		}
	}
	return ""
}

// none stands where a subject has no such figure.
const none = "–"

// names is how many columns of a table are names; the others are figures.
const names = 2

// cells are a result's table: a head, and a line for each subject and case, in the order in which they were
// first added but floors last: they are no competitors.
func cells(r *Result) [][]string {
	head := []string{"subject", "case", "runs"}
	for i, metric := range r.Metrics {
		name := metric.Name
		if metric.Unit != metric.Name {
			name += ", " + metric.Unit
		}
		head = append(head, name)
		if i == 0 {
			head = append(head, "ratio")
		}
	}
	lines := [][]string{head}
	for _, first := range r.subjects() {
		runs := r.runsOf(first)
		line := []string{first.Subject, first.Case, Count(runs)}
		for i, metric := range r.Metrics {
			row, found := r.find(first, metric)
			line = append(line, cell(row, metric, found)+fewer(row, metric, runs))
			if i == 0 {
				line = append(line, ratio(row))
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// cell is a figure, with its spread where it is one of those that are plotted.
func cell(row Row, metric Metric, found bool) string {
	switch {
	case !found:
		return none
	case metric.Of > 0:
		return Count(int(row.Sum())) + " of " + Count(metric.Of*len(row.Values))
	case metric.Plot && len(row.Values) > 1:
		return Figure(row.Median) + " (" + Figure(row.Min) + "–" + Figure(row.Max) + ")"
	}
	return Figure(row.Median)
}

// fewer says of how many runs a figure is that has not one for each of its line: after a failure, or where a
// run had none.
func fewer(row Row, metric Metric, runs int) string {
	if n := len(row.Values); n > 0 && n < runs && metric.Of == 0 {
		return ", n=" + Count(n)
	}
	return ""
}

// runsOf is how often a subject and case ran: as often as the figure has values that has most.
func (r *Result) runsOf(like Row) (runs int) {
	for _, row := range r.Rows {
		if row.Name() == like.Name() {
			runs = max(runs, len(row.Values))
		}
	}
	return runs
}

// maxRuns is how often the competitor ran that ran most often.
func (r *Result) maxRuns() (runs int) {
	for _, row := range r.Rows {
		if row.Kind != Floor {
			runs = max(runs, len(row.Values))
		}
	}
	return runs
}

func ratio(row Row) string {
	if row.Ratio == 0 {
		return none
	}
	return Figure(row.Ratio)
}

// subjects is the first row of each subject and case.
func (r *Result) subjects() []Row {
	var competitors, floors []Row
	for _, row := range r.Rows {
		same := func(known Row) bool { return known.Name() == row.Name() }
		switch {
		case slices.ContainsFunc(competitors, same) || slices.ContainsFunc(floors, same):
		case row.Kind == Floor:
			floors = append(floors, row)
		default:
			competitors = append(competitors, row)
		}
	}
	return append(competitors, floors...)
}

// find is the row of a metric that belongs to the same subject and case.
func (r *Result) find(like Row, metric Metric) (Row, bool) {
	for _, row := range r.Rows {
		if row.Name() == like.Name() && row.Metric == metric.Name {
			return row, true
		}
	}
	return Row{}, false
}
