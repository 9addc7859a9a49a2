package main

import (
	"cmp"
	"context"
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
	alarm          bool         // it needs an operator
	details        func(*table) // prints what is known of it
	// more reads further details; nil if there are none.
	more func(context.Context, operations) (print func(*table), err error)
}

// View implements tea.Model. Every line is cut to the window, so that nothing wraps or scrolls. No mode of the
// mouse is set: the terminal selects and copies text by it.
func (t *top) View() tea.View {
	height := max(0, t.lines-topFrame)
	head, body := t.tableLines(height)
	if t.sheet != nil {
		head, body = plain(t.sheet.title), t.sheetLines()
		body = body[min(t.sheet.first, len(body)):]
		body = body[:min(height, len(body))]
	}
	lines := append([]string{topBold.Render(t.fit(t.counters())), t.tabLine(), topFaint.Render(t.fit(head))}, body...)
	for len(lines) < t.lines-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(0, min(len(lines), t.lines-1))], t.lastLine())
	view := tea.NewView(strings.Join(lines, "\n"))
	view.AltScreen = true
	return view
}

// tableLines returns the heads of the tab's columns, and as many of its rows as fit, the selected one included.
func (t *top) tableLines(height int) (head string, lines []string) {
	rows := t.rows()
	selected := t.at(rows)
	first := max(0, min(selected-height/2, len(rows)-height))
	rows = rows[first:min(first+height, len(rows))]
	widths := columnWidths(topHeads[t.tab], rows, t.columns)
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
	return layOut(topHeads[t.tab], widths), lines
}

// sheetLines returns all lines of the sheet. Long ones are wrapped: an error message is read to its end.
func (t *top) sheetLines() []string {
	lines := strings.Split(ansi.Hardwrap(strings.TrimSpace(t.sheet.text), t.columns, true), "\n")
	for i := range lines {
		lines[i] = t.fit(lines[i]) // a character may be wider than the window
	}
	return lines
}

// fit cuts a text to the window.
func (t *top) fit(text string) string { return ansi.Truncate(text, t.columns, "") }

func (t *top) counters() string {
	s := t.status
	if s.At.IsZero() {
		return "belay top"
	}
	text := s.At.Local().Format(time.TimeOnly + " MST")
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
		"3 queues " + count(t.status.QueueCount, len(t.status.Queues)), "4 retries", "5 scheduled", "6 dead", // counted above
	} {
		style := topFaint
		if tab == t.tab {
			style = topHere
		}
		line += style.Render(" " + name + " ")
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
	if t.sheet != nil {
		return topFaint.Render(t.fit("q quit  esc back  up, down scroll"))
	}
	return topFaint.Render(t.fit("q quit  1-6 pages  enter details  p pause a queue  Q quiet a process  ? help"))
}

// fitEnd cuts a text so that its end still fits.
func (t *top) fitEnd(text, end string) string {
	return t.fit(ansi.Truncate(text, max(0, t.columns-len(end)), "…") + end)
}

// headJob is the head of the column with jids.
const headJob = "JOB"

// topHeads are the heads of the columns of each tab. Jids come first, where no window cuts them.
var topHeads = [tabs][]string{
	tabProcesses: {"PROCESS", "STATE", "BUSY", "MB", "QUEUES", "TAG"},
	tabRunning:   {headJob, "CLASS", "QUEUE", "FOR", "PROCESS"},
	tabQueues:    {"QUEUE", "SIZE", "LATENCY", "RUNS", "FAILED", "WAITING", ""},
	tabRetries:   {headJob, "CLASS", "QUEUE", "DUE IN", "FAILED", ""},
	tabScheduled: {headJob, "CLASS", "QUEUE", "DUE IN", "FAILED", ""},
	tabDead:      {headJob, "CLASS", "QUEUE", "DEAD FOR", "FAILED", ""},
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
				details: func(t *table) { printProcess(t, p) },
			})
		}
	case tabRunning:
		return t.runningRows()
	case tabQueues:
		for _, q := range t.status.Queues {
			rows = append(rows, topRow{
				key: q.Name, queue: q.Name, alarm: q.NoConsumer || q.HeldByDead > 0,
				cells:   append(queueCells(q), queueNotes(q)),
				details: func(t *table) { printQueue(t, q) },
				more:    jobsOf(q.Name),
			})
		}
	default:
		for _, e := range t.sets[t.tab] {
			wait := e.At.Sub(t.status.At)
			if t.tab == tabDead {
				wait = -wait
			}
			rows = append(rows, topRow{
				key: e.In + " " + e.ID, queue: e.Queue, alarm: e.Problem != "",
				cells:   []string{e.ID, e.Class, e.Queue, rough(wait), cmp.Or(e.FailedRuns(), "-"), remark(e)},
				details: func(t *table) { printEntry(t, e) },
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
				alarm:   run.Overdue.Duration > 0 || p.State != inspect.StateAlive,
				cells:   []string{run.JID, run.Class, run.Queue, runFor(run), p.Identity},
				details: func(t *table) { printRun(t, p, run) },
				more:    jobOf(run),
			})
		}
	}
	return rows
}

// rough returns a duration as a column of the table shows it; times that have come are "now".
func rough(d time.Duration) string {
	switch {
	case d <= 0:
		return "now"
	case d >= 2*24*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return short(inspect.Seconds{Duration: d})
}

// printProcess prints all fields of a process, one a line, and its running jobs.
func printProcess(t *table, p inspect.Process) {
	t.field("process", p.Identity)
	t.field("state", string(p.State)+word(p.Quiet, ", quiet"))
	t.field("host", fmt.Sprintf("%s, process %d", p.Hostname, p.PID))
	t.field("version", p.Version)
	t.field("tag", p.Tag)
	t.field("labels", strings.Join(p.Labels, ", "))
	t.field("queues", queuesOf(p))
	t.field("busy", fmt.Sprintf("%d of %d", p.Busy, p.Concurrency))
	t.field("memory", fmt.Sprintf("%d MB", p.RSS/1024))
	t.instant("started", p.StartedAt)
	if p.BeatAge != nil {
		t.field("heartbeat", short(*p.BeatAge)+" ago")
	}
	for _, run := range p.Running {
		t.field("running", fmt.Sprintf("%s %s for %s", run.JID, run.Class, runFor(run)))
	}
}

// printRun prints all fields of a run, one a line.
func printRun(t *table, p inspect.Process, run inspect.Run) {
	t.field("id", run.JID)
	t.field("class", run.Class)
	t.field("queue", run.Queue)
	t.field("running for", runFor(run))
	t.instant("since", run.Since)
	t.field("process", p.Identity+word(p.State != inspect.StateAlive, ", "+string(p.State)))
}

// printQueue prints all fields of a queue, one a line.
func printQueue(t *table, q inspect.Queue) {
	t.field("queue", q.Name)
	t.field("jobs", fmt.Sprint(q.Size))
	t.field("latency", short(q.Latency))
	t.field("runs", inspect.PerSecond(q.Rate))
	t.field("failed", inspect.PerSecond(q.FailedRate))
	t.field("remarks", queueNotes(q))
}

// jobOf returns a function that reads the job of a run. Its process may have it no more.
func jobOf(run inspect.Run) func(context.Context, operations) (func(*table), error) {
	return func(ctx context.Context, redis operations) (func(*table), error) {
		query := inspect.Query{IDs: []string{run.JID}, Places: []inspect.Place{inspect.PlaceRunning}}
		jobs, err := firstJobs(ctx, redis, query, 1)
		return func(t *table) {
			if len(jobs) == 0 {
				t.row("no process of Belay has the job any more, or it runs in one of Sidekiq")
			}
			for _, job := range jobs {
				printEntry(t, job)
			}
		}, err
	}
}

// queueShown is how many jobs the details of a queue list.
const queueShown = 25

// jobsOf returns a function that reads the first jobs of a queue.
func jobsOf(queue string) func(context.Context, operations) (func(*table), error) {
	return func(ctx context.Context, redis operations) (func(*table), error) {
		query := inspect.Query{Places: []inspect.Place{inspect.PlaceQueue, inspect.PlaceQuarantined}}
		query.Queue = queue
		jobs, err := firstJobs(ctx, redis, query, queueShown)
		return func(t *table) {
			if len(jobs) > 0 {
				t.row("NEXT JOBS", "CLASS", "ENQUEUED", "ARGS")
			}
			for _, job := range jobs {
				t.row(job.ID, cut(job.Class, 40), localTime(&job.EnqueuedAt), cut(string(job.Args), 40))
			}
		}, err
	}
}

// minColumn is the width below which a column is not made narrower while another one is wider.
const minColumn = 6

// maxWholeID is the longest jid that is never made narrower: Belay's and Sidekiq's have 24 characters, a UUID
// has 36.
const maxWholeID = 36

// columnWidths returns the widths of the columns: those of their longest cells, with the widest made narrower
// until all fit, but for jids: half a jid cannot be copied.
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
		widest := -1
		for i, width := range widths {
			whole := heads[i] == headJob && width <= maxWholeID
			if !whole && (widest < 0 || width > widths[widest]) {
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
