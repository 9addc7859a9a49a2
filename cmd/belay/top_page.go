package main

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/belayq/belay/inspect"
)

// topFrame is how many lines are not rows: the counters, the tabs, the heads of the columns and the last line.
const topFrame = 4

var (
	topBold  = lipgloss.NewStyle().Bold(true)
	topFaint = lipgloss.NewStyle().Faint(true)
	topHere  = lipgloss.NewStyle().Reverse(true)
	topAlarm = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

// A topRow is a line of a table. Its cells are text from Redis.
type topRow struct {
	key            string // finds the row again after the next read
	process, queue string // what keys act on
	cells          []string
	alarm          bool // it needs an operator
}

// View implements tea.Model. Every line is cut to the window, so that nothing wraps or scrolls.
func (t *top) View() tea.View {
	rows := t.rows()
	selected := t.at(rows)
	height := max(0, t.lines-topFrame)
	first := max(0, min(selected-height/2, len(rows)-height))
	rows = rows[first:min(first+height, len(rows))]
	widths := columnWidths(topHeads[t.tab], rows, t.columns)
	lines := []string{topBold.Render(t.fit(t.counters())), t.tabLine(), topFaint.Render(t.fit(layOut(topHeads[t.tab], widths)))}
	for i, row := range rows {
		style := lipgloss.NewStyle()
		switch {
		case first+i == selected:
			style = topHere
		case row.alarm:
			style = topAlarm
		}
		lines = append(lines, style.Render(t.fit(layOut(row.cells, widths))))
	}
	for len(lines) < t.lines-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(0, min(len(lines), t.lines-1))], t.lastLine())
	view := tea.NewView(strings.Join(lines, "\n"))
	view.AltScreen = true
	return view
}

// fit cuts a text to the window.
func (t *top) fit(text string) string { return ansi.Truncate(text, t.columns, "") }

func (t *top) counters() string {
	s := t.status
	if s.At.IsZero() {
		return "belay top"
	}
	text := s.At.Local().Format(time.TimeOnly)
	if ended, seconds := s.Processed-t.before.Processed, s.At.Sub(t.before.At).Seconds(); !t.before.At.IsZero() && seconds > 0 {
		text += fmt.Sprintf("  %.0f jobs/s", float64(max(ended, 0))/seconds)
	}
	text += fmt.Sprintf("  enqueued %d  retries %d  scheduled %d  dead %d", s.Enqueued, s.Retries, s.Scheduled, s.Dead)
	text += word(s.Quarantined > 0, fmt.Sprintf("  quarantined %d", s.Quarantined))
	text += word(s.HeldByDead > 0, fmt.Sprintf("  held by dead workers %d", s.HeldByDead))
	return text + fmt.Sprintf("  failed %d  processed %d", s.Failed, s.Processed)
}

func (t *top) tabLine() string {
	line, running := "", 0
	for _, p := range t.status.Processes {
		running += len(p.Running)
	}
	for tab, name := range []string{
		"1 processes " + count(t.status.ProcessCount, len(t.status.Processes)), fmt.Sprintf("2 running %d", running),
		"3 queues " + count(t.status.QueueCount, len(t.status.Queues)), fmt.Sprintf("4 sets %d", t.status.Retries+t.status.Scheduled+t.status.Dead),
	} {
		style := topFaint
		if tab == t.tab {
			style = topHere
		}
		line += style.Render(" "+name+" ") + " "
	}
	return t.fit(line)
}

// lastLine returns the question, else the error of Redis, else the result of the last act, else the keys.
func (t *top) lastLine() string {
	waiting := time.Since(t.reading)
	switch {
	case t.question != "":
		return topAlarm.Render(t.fitEnd(plain(t.question), "? [y/N]"))
	case t.readErr != "":
		return topAlarm.Render(t.fit("Redis cannot be read, trying again: " + t.readErr))
	case !t.reading.IsZero() && waiting > 2*time.Second:
		return topAlarm.Render(t.fit(fmt.Sprintf("Redis has not answered for %.0f s", waiting.Seconds())))
	case t.note != "":
		return t.fit(plain(t.note))
	case len(t.status.Problems) > 0:
		return topAlarm.Render(t.fit("problem: " + plain(t.status.Problems[0])))
	}
	return topFaint.Render(t.fit("q quit  tab 1-4 pages  p pause a queue  Q quiet a process"))
}

// fitEnd cuts a text so that its end still fits.
func (t *top) fitEnd(text, end string) string {
	return t.fit(ansi.Truncate(text, max(0, t.columns-len(end)), "…") + end)
}

// topHeads are the heads of the columns of each tab.
var topHeads = [tabs][]string{
	tabProcesses: {"PROCESS", "STATE", "BUSY", "MB", "QUEUES", "TAG"},
	tabRunning:   {"FOR", "CLASS", "QUEUE", "JOB", "PROCESS"},
	tabQueues:    {"QUEUE", "SIZE", "LATENCY", ""},
	tabSets:      {"SET", "AT", "CLASS", "QUEUE", "JOB", "FAILED", ""},
}

// rows returns the table of the tab.
func (t *top) rows() (rows []topRow) {
	switch t.tab {
	case tabProcesses:
		for _, p := range t.status.Processes {
			rows = append(rows, topRow{
				key: p.Identity, process: p.Identity, alarm: p.State != inspect.StateAlive,
				cells: []string{p.Identity, string(p.State) + word(p.Quiet, ", quiet"), fmt.Sprintf("%d/%d", p.Busy, p.Concurrency),
					fmt.Sprint(p.RSS / 1024), queuesOf(p), p.Tag},
			})
		}
	case tabRunning:
		return t.runningRows()
	case tabQueues:
		for _, q := range t.status.Queues {
			rows = append(rows, topRow{
				key: q.Name, queue: q.Name, alarm: q.NoConsumer || q.HeldByDead > 0,
				cells: []string{q.Name, fmt.Sprint(q.Size), short(q.Latency), queueNotes(q)},
			})
		}
	case tabSets:
		for _, e := range t.sets {
			cells := entryCells(e)
			rows = append(rows, topRow{
				key: e.In + " " + e.ID, queue: e.Queue, alarm: e.Problem != "",
				cells: []string{e.In, fmt.Sprint(cells[0]), e.Class, e.Queue, e.ID, fmt.Sprint(cells[4]), remark(e)},
			})
		}
	}
	return rows
}

func (t *top) runningRows() (rows []topRow) {
	for _, p := range t.status.Processes {
		for _, run := range p.Running {
			rows = append(rows, topRow{
				key: p.Identity + " " + run.Thread + " " + run.JID, process: p.Identity, queue: run.Queue,
				alarm: run.Overdue.Duration > 0 || p.State != inspect.StateAlive,
				cells: []string{runFor(run), run.Class, run.Queue, run.JID, p.Identity},
			})
		}
	}
	return rows
}

// minColumn is the width below which a column is not made narrower while another one is wider.
const minColumn = 6

// columnWidths returns the widths of the columns: those of their longest cells, with the widest made narrower
// until all fit.
func columnWidths(heads []string, rows []topRow, columns int) []int {
	widths := make([]int, len(heads))
	room := columns
	for i, head := range heads {
		widths[i] = len(head)
		for _, row := range rows {
			widths[i] = min(max(widths[i], lipgloss.Width(plain(row.cells[i]))), columns)
		}
		room -= widths[i] + len(topGap)
	}
	for ; room < 0; room++ {
		widest := 0
		for i, width := range widths {
			if width > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= minColumn {
			break
		}
		widths[widest]--
	}
	return widths
}

const topGap = "  "

// layOut returns the cells in their columns, with every character that could control the terminal escaped.
func layOut(cells []string, widths []int) string {
	var line strings.Builder
	for i, cell := range cells {
		cell = ansi.Truncate(plain(cell), widths[i], "…")
		line.WriteString(cell + strings.Repeat(" ", max(0, widths[i]-lipgloss.Width(cell))) + topGap)
	}
	return line.String()
}
