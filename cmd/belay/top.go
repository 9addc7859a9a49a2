package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/inspect"
)

const topHelp = `Shows processes, running jobs, queues and sets in the whole window of a terminal, and reads them again every two seconds.
While Redis is away, it shows the error and tries again.

` + topKeys

// topKeys is what ? shows. It fits a window of 80 columns.
const topKeys = `Keys:
  1, 2, 3         processes, running jobs, queues
  4, 5, 6         retries, scheduled jobs (the next ones), dead jobs (the last ones)
  tab, shift-tab  the next page, the one before
  up, down, page up, page down, home, end (or k, j, b, space, g, G)
  enter           all that is known of the selected row, until enter or esc
  p               pause or resume the selected queue; it asks first
  Q               quiet the selected process; it asks first: the process takes
                  no more jobs, which cannot be undone
  r               read again now
  ?               this list
  q, ctrl-c       quit

The mouse is the terminal's: it selects text to copy. Jids are shown whole.`

func newTop(at *redisFlags) *cobra.Command {
	var every time.Duration
	cmd := at.masking(&cobra.Command{
		Use:     "top",
		Short:   "Watch processes, jobs and queues in a terminal",
		Long:    topHelp,
		Example: "  belay top\n  belay top --every 500ms --redis redis://redis.example.com:6379/2",
		Args:    noArgs,
		RunE: withShardsOf(at, func(cmd *cobra.Command, c *client.Client, shards []inspect.Shard, _ []string) error {
			switch {
			case every < minEvery:
				return usage("--every %v: it must be at least %v", every, minEvery)
			case !isTerminal(cmd.OutOrStdout()):
				return usage("standard output is not a terminal: use belay status, with --watch to repeat it")
			}
			for _, shard := range shards {
				space := spaceOf(c, shard)
				if err := admitted(space.Driver, space.Prefix, check.RoleDashboard); err != nil {
					return err
				}
			}
			return runTop(cmd, inspect.NewFleet(shards...), every)
		}),
	})
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "interval between two reads")
	return cmd
}

// runTop shows the page until a key or a signal ends it, or until the terminal is closed.
func runTop(cmd *cobra.Command, fleet *inspect.Fleet, every time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	options := []tea.ProgramOption{tea.WithOutput(fileOf(cmd.OutOrStdout())), tea.WithoutSignalHandler(), tea.WithInput(nil)}
	if in := cmd.InOrStdin(); isTerminal(in) {
		options[2] = tea.WithInput(in)
	}
	program := tea.NewProgram(&top{ctx: ctx, redis: topFleet{fleet}, every: every}, options...)
	defer context.AfterFunc(ctx, program.Quit)()
	if _, err := program.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("use the terminal: %w", err)
	}
	return nil
}

// The tabs of the page.
const (
	tabProcesses = iota
	tabRunning
	tabQueues
	tabRetries
	tabScheduled
	tabDead
	tabs
)

// topSets are the places of the jobs that a tab lists. A set is read only while its tab is open.
var topSets = map[int]inspect.Place{
	tabRetries: inspect.PlaceRetry, tabScheduled: inspect.PlaceScheduled, tabDead: inspect.PlaceDead,
}

// A top is the state of the page. Only bubbletea's loop uses it; reads and acts run beside it, and send a
// message when they end.
type top struct {
	ctx   context.Context
	redis operations
	every time.Duration

	columns, lines int
	tab            int
	key            [tabs]string // of the selected row: rows move between two reads
	selected       [tabs]int    // where it was last

	status, before inspect.Status
	sets           [tabs][]inspect.Entry // of those in topSets
	reading        time.Time             // the start of the read under way; zero if there is none
	readErr        string                // why the last read failed
	note           string                // what the last act did
	question       string                // the open question; act runs after a yes
	act            tea.Cmd
	sheet          *sheet // covers the table; nil if it is closed
}

// A sheet is text over the table: the help, or the details of a row. It stays as it is until it is closed, so
// that the mouse can select in it.
type sheet struct {
	title, text string
	first       int // the first line that is shown
}

// operations are the methods of an Inspector that the page uses; topFleet has them for several shards.
type operations interface {
	Status(ctx context.Context) (inspect.Status, error)
	Pause(ctx context.Context, queue string) (changed bool, err error)
	Resume(ctx context.Context, queue string) (changed bool, err error)
	Signal(ctx context.Context, identity string, signal inspect.Signal) (bool, error)
	Jobs(ctx context.Context, query inspect.Query) iter.Seq2[inspect.Found, error]
}

// The messages that the loop gets besides keys and windows.
type (
	topTick struct{}
	topRead struct {
		status inspect.Status
		tab    int // the one that was open
		set    []inspect.Entry
		err    error
	}
	topActed struct{ note string }
	// topMore is what was read for a sheet.
	topMore struct {
		sheet *sheet
		text  string
	}
)

// Init implements tea.Model.
func (t *top) Init() tea.Cmd { return func() tea.Msg { return topTick{} } }

// Update implements tea.Model.
func (t *top) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		t.columns, t.lines = msg.Width, msg.Height
	case topTick:
		return t, tea.Batch(t.read(), tea.Tick(t.every, func(time.Time) tea.Msg { return topTick{} }))
	case topRead:
		t.reading = time.Time{}
		t.readErr = ""
		if msg.err != nil {
			t.readErr = oneLine(hidePasswords(msg.err.Error()))
		} else {
			t.before, t.status, t.sets[msg.tab] = t.status, msg.status, msg.set
		}
		if _, isSet := topSets[t.tab]; isSet && msg.tab != t.tab { // its tab was opened during the read
			return t, t.read()
		}
	case topActed:
		t.note = msg.note
		return t, t.read()
	case topMore:
		msg.sheet.text += msg.text
	case tea.KeyPressMsg:
		return t, t.press(msg.String())
	}
	return t, nil
}

// setShown is how many jobs of a set are shown: the next ones, or the last to die.
const setShown = 100

// read starts a read of the data that the page shows, unless one is under way.
func (t *top) read() tea.Cmd {
	if !t.reading.IsZero() {
		return nil
	}
	t.reading = time.Now()
	ctx, redis, tab := t.ctx, t.redis, t.tab
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		read := topRead{tab: tab}
		read.status, read.err = redis.Status(ctx)
		if place, isSet := topSets[tab]; isSet && read.err == nil {
			read.set, read.err = firstJobs(ctx, redis, inspect.Query{Places: []inspect.Place{place}}, setShown)
		}
		return read
	}
}

// firstJobs returns the first jobs that match a query, at most as many as limit.
func firstJobs(ctx context.Context, redis operations, query inspect.Query, limit int) (jobs []inspect.Entry, err error) {
	for found, err := range redis.Jobs(ctx, query) {
		if err != nil {
			return nil, err
		}
		if found.Entry != nil {
			jobs = append(jobs, *found.Entry)
		}
		if len(jobs) == limit {
			break
		}
	}
	return jobs, nil
}

// press acts on a key.
func (t *top) press(key string) tea.Cmd {
	if t.question != "" && key != "ctrl+c" {
		act := t.act
		t.question, t.act, t.note = "", nil, "nothing was done"
		if key == "y" || key == "Y" {
			t.note = ""
			return act
		}
		return nil
	}
	t.note = ""
	page := max(1, t.lines-topFrame)
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "1", "2", "3", "4", "5", "6":
		return t.open(int(key[0] - '1'))
	case "tab", "right", "l":
		return t.open((t.tab + 1) % tabs)
	case "shift+tab", "left", "h":
		return t.open((t.tab + tabs - 1) % tabs)
	case "up", "k":
		t.move(-1)
	case "down", "j":
		t.move(1)
	case "pgup", "b":
		t.move(-page)
	case "pgdown", "space", "f":
		t.move(page)
	case "home", "g":
		t.move(-farthest)
	case "end", "G":
		t.move(farthest)
	case "r":
		return t.read()
	case "?":
		t.sheet = &sheet{title: "help", text: topKeys}
	case "esc":
		t.sheet = nil
	default:
		return t.pressOnRow(key)
	}
	return nil
}

// farthest is more than there are rows or lines.
const farthest = 1 << 30

// pressOnRow acts on a key that concerns the selected row. Over a sheet, which hides the row, it only closes
// the sheet.
func (t *top) pressOnRow(key string) tea.Cmd {
	switch {
	case t.sheet != nil && key == "enter":
		t.sheet = nil
	case t.sheet != nil:
	case key == "enter":
		return t.showDetails()
	case key == "p":
		t.askPause()
	case key == "Q":
		t.askQuiet()
	}
	return nil
}

// open shows another tab.
func (t *top) open(tab int) tea.Cmd {
	t.tab, t.sheet = tab, nil
	if _, isSet := topSets[tab]; isSet {
		return t.read()
	}
	return nil
}

// move selects another row, or scrolls the sheet.
func (t *top) move(by int) {
	if t.sheet != nil {
		t.sheet.first = max(0, min(t.sheet.first+by, len(t.sheetLines())-(t.lines-topFrame)))
		return
	}
	rows := t.rows()
	if len(rows) == 0 {
		return
	}
	at := min(max(t.at(rows)+by, 0), len(rows)-1)
	t.selected[t.tab], t.key[t.tab] = at, rows[at].key
}

// at returns the index of the selected row, wherever it is now. If the row has gone, it returns the row in its
// place.
func (t *top) at(rows []topRow) int {
	at := slices.IndexFunc(rows, func(row topRow) bool { return row.key == t.key[t.tab] })
	if at < 0 {
		at = max(0, min(t.selected[t.tab], len(rows)-1))
	}
	return at
}

// current returns the selected row, or an empty one.
func (t *top) current() topRow {
	rows := t.rows()
	if len(rows) == 0 {
		return topRow{}
	}
	return rows[t.at(rows)]
}

// showDetails opens a sheet about the selected row.
func (t *top) showDetails() tea.Cmd {
	row := t.current()
	if row.key == "" {
		t.note = "there is no row to show"
		return nil
	}
	opened := &sheet{title: row.cells[0], text: tableText(row.details)}
	t.sheet = opened
	if row.more == nil {
		return nil
	}
	ctx, redis := t.ctx, t.redis
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		more, err := row.more(ctx, redis)
		if err != nil {
			more = func(t *table) { t.row("the rest cannot be read: " + oneLine(hidePasswords(err.Error()))) }
		}
		return topMore{opened, "\n" + tableText(more)}
	}
}

// tableText returns what is printed to a table.
func tableText(print func(*table)) string {
	var out strings.Builder
	t := newTable(&out)
	print(t)
	_ = t.Flush() // to a buffer
	return out.String()
}

// ask shows a question. The act is bound to what was selected when the key was pressed.
func (t *top) ask(question string, act func(ctx context.Context) (note string, err error)) {
	t.question = question
	ctx := t.ctx
	t.act = func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		note, err := act(ctx)
		if err != nil {
			note = "it failed: " + oneLine(hidePasswords(err.Error()))
		}
		return topActed{note}
	}
}

func (t *top) askPause() {
	name := t.current().queue
	if name == "" {
		t.note = "select a queue first"
		return
	}
	verb, act := "pause", t.redis.Pause
	if t.isPaused(name) {
		verb, act = "resume", t.redis.Resume
	}
	t.ask(verb+" queue "+name, func(ctx context.Context) (string, error) {
		changed, err := act(ctx, name)
		return fmt.Sprintf("%s: %sd%s", name, verb, word(!changed, " already")), err
	})
}

func (t *top) isPaused(name string) bool {
	return slices.ContainsFunc(t.status.Queues, func(q inspect.Queue) bool { return q.Name == name && q.Paused })
}

func (t *top) askQuiet() {
	identity := t.current().process
	if identity == "" {
		t.note = "select a process first"
		return
	}
	t.ask("quiet "+identity+" (it takes no more jobs; this cannot be undone)", func(ctx context.Context) (string, error) {
		sent, err := t.redis.Signal(ctx, identity, inspect.Quiet)
		if err == nil && !sent {
			err = errors.New("there is no such process any more")
		}
		return identity + ": quiet sent", err
	})
}
