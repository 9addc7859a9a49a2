package report

import (
	"fmt"
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
			if i < 2 { // names to the left, figures to the right
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
		lines = append(lines, "Figures are medians (least–most); ratio is to "+base+".")
	}
	for _, row := range r.subjects() {
		if row.Settings != "" {
			lines = append(lines, fmt.Sprintf("%s: %s.", row.Name(), row.Settings))
		}
	}
	lines = append(lines, r.Notes...)
	for _, out := range r.LeftOut {
		lines = append(lines, fmt.Sprintf("Left out: %s: %s", out.Subject, out.Why))
	}
	return lines
}

func (r *Result) baseName() string {
	for _, row := range r.Rows {
		if row.Base != "" {
			return row.Base
		}
	}
	return ""
}
