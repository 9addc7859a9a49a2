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
	if r.mostRuns() == 1 {
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
