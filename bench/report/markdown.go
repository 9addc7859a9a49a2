package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const preface = `The figures of a table are of one run on one machine: compare them with each other, and quote the command, the machine and the date with
them. Each is the median of as many interleaved runs as its line says, with the least and the most where they are shown; the
JSON beside this file has all. "its best" are the settings that are best for the system; a concurrency is the same for all.
`

// Markdown is report.md: a summary, and a section for each result.
func Markdown(results []*Result) string {
	var out strings.Builder
	out.WriteString("# Belay and its peers on one machine\n\n")
	if len(results) == 0 {
		return out.String()
	}
	single := ofOneRun(results)
	if single {
		out.WriteString(source(results[0]))
	} else {
		out.WriteString("- of several runs of the bench: each section says of which\n")
	}
	out.WriteString("\n" + preface + "\n")
	out.WriteString("## Summary\n\nEach by the best of its rows below. In parentheses: how many times better Belay is; below 1, how much " +
		"worse. n: of how many runs a figure is that has fewer than others have.\n\n")
	writeTable(&out, summary(results))
	for _, r := range results {
		writeSection(&out, r)
		if !single {
			out.WriteString(source(r))
		}
	}
	return out.String()
}

// source is where and how a result was taken.
func source(r *Result) string {
	return fmt.Sprintf("- machine: %s\n- date: %s\n- command: `%s`\n- versions: %s\n", r.Machine,
		r.Date.Format("2006-01-02 15:04 MST"), r.Command, versions(r))
}

// ofOneRun reports whether all results may share a head: a folder keeps those of earlier runs.
func ofOneRun(results []*Result) bool {
	first := results[0]
	return !slices.ContainsFunc(results, func(r *Result) bool {
		return r.Command != first.Command || r.Machine != first.Machine || !maps.Equal(r.Versions, first.Versions)
	})
}

func versions(r *Result) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		version := r.Versions[name]
		if !strings.HasPrefix(version, name) { // most subjects name themselves
			version = name + " " + version
		}
		all = append(all, version)
	}
	return strings.Join(all, "; ")
}

func writeSection(out *strings.Builder, r *Result) {
	fmt.Fprintf(out, "\n## %s\n\n%s\n\n", r.Title, r.What)
	writeTable(out, cells(r))
	fmt.Fprintf(out, "\n![%s](%s.svg)\n\n", r.Title, r.Measure)
	fmt.Fprintf(out, "How to read it: %s\n\n", r.HowToRead)
	for _, line := range belowTable(r) {
		fmt.Fprintf(out, "- %s\n", strings.ReplaceAll(strings.TrimSpace(line), "\n", " "))
	}
}

// writeTable writes cells with names to the left and figures to the right.
func writeTable(out *strings.Builder, lines [][]string) {
	for i, line := range lines {
		escaped := make([]string, len(line))
		for at, text := range line {
			escaped[at] = strings.ReplaceAll(text, "|", "\\|")
		}
		fmt.Fprintf(out, "| %s |\n", strings.Join(escaped, " | "))
		if i == 0 {
			out.WriteString(strings.Repeat("|---", names) + strings.Repeat("|---:", len(line)-names) + "|\n")
		}
	}
}

// summary has a line for each result: Belay's best figure by the headline, and each peer's with Belay's factor.
func summary(results []*Result) [][]string {
	peers := peersOf(results)
	lines := [][]string{append([]string{"measure", "figure", "Belay"}, peers...)}
	for _, r := range results {
		if len(r.Metrics) == 0 {
			continue
		}
		headline := r.Metrics[0]
		belay := r.Best(func(row Row) bool { return row.Kind == Belay })
		line := []string{r.Title, headline.Name, none}
		if headline.Unit != headline.Name {
			line[1] += ", " + headline.Unit
		}
		if belay != nil {
			line[2] = Figure(belay.Median) + fewer(*belay, headline, r.maxRuns())
		}
		for _, peer := range peers {
			best := r.Best(func(row Row) bool { return row.Subject == peer && row.Kind == Peer })
			cell := summaryCell(belay, best, headline)
			if best != nil {
				cell += fewer(*best, headline, r.maxRuns())
			}
			line = append(line, cell)
		}
		lines = append(lines, line)
	}
	return lines
}

func summaryCell(belay, peer *Row, headline Metric) string {
	if peer == nil {
		return none
	}
	if belay == nil || belay.Median == 0 || peer.Median == 0 {
		return Figure(peer.Median)
	}
	factor := belay.Median / peer.Median
	if headline.Less {
		factor = 1 / factor
	}
	return Figure(peer.Median) + " (" + Figure(factor) + "×)"
}

func peersOf(results []*Result) []string {
	var peers []string
	for _, r := range results {
		for _, row := range r.Rows {
			if row.Kind == Peer && !slices.Contains(peers, row.Subject) {
				peers = append(peers, row.Subject)
			}
		}
	}
	return peers
}
