package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

const topHelp = `Shows processes, running jobs, queues and sets in the whole window of a terminal, and reads them again every two seconds.
While Redis is away, it shows the error and tries again.

Keys:
  1, 2, 3, 4, tab        processes, running jobs, queues, the sets with their next jobs
  up, down, page up, page down, home, end (or k, j, b, space, g, G)
  p                      pause or resume the selected queue; it asks first
  Q                      quiet the selected process; it asks first: the process takes no more jobs, which cannot be undone
  r                      read again now
  q, ctrl-c              quit`

func newTop(at *redisFlags) *cobra.Command {
	var every time.Duration
	cmd := &cobra.Command{
		Use:     "top",
		Short:   "Watch processes, jobs and queues in a terminal",
		Long:    topHelp,
		Example: "  belay top\n  belay top --every 500ms --redis redis://redis.example.com:6379/2",
		Args:    noArgs,
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, _ []string) error {
			switch {
			case every < minEvery:
				return usage("--every %v: it must be at least %v", every, minEvery)
			case !isTerminal(cmd.OutOrStdout()):
				return usage("standard output is not a terminal: use belay status, with --watch to repeat it")
			}
			return runTop(cmd, i, every)
		}),
	}
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "interval between two reads")
	return cmd
}

// runTop shows the page until a key or a signal ends it, or until the terminal is closed.
func runTop(cmd *cobra.Command, i *inspect.Inspector, every time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	options := []tea.ProgramOption{tea.WithOutput(fileOf(cmd.OutOrStdout())), tea.WithoutSignalHandler(), tea.WithInput(nil)}
	if in := cmd.InOrStdin(); isTerminal(in) {
		options[2] = tea.WithInput(in)
	}
	program := tea.NewProgram(&top{ctx: ctx, redis: i, every: every}, options...)
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
	tabSets
	tabs
)

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
	sets           []inspect.Entry
	reading        time.Time // the start of the read under way; zero if there is none
	readErr        string    // why the last read failed
	note           string    // what the last act did
	question       string    // the open question; act runs after a yes
	act            tea.Cmd
}

// operations are the methods of an Inspector that the page uses.
type operations interface {
	Status(ctx context.Context) (inspect.Status, error)
	Pause(ctx context.Context, queue string) (changed bool, err error)
	Resume(ctx context.Context, queue string) (changed bool, err error)
	Signal(ctx context.Context, identity string, signal inspect.Signal) (bool, error)
	Entries(ctx context.Context, home inspect.Home, skip int) iter.Seq2[inspect.Entry, error]
}

// The messages that the loop gets besides keys and windows.
type (
	topTick struct{}
	topRead struct {
		status inspect.Status
		sets   []inspect.Entry
		err    error
	}
	topActed struct{ note string }
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
			t.before, t.status, t.sets = t.status, msg.status, msg.sets
		}
	case topActed:
		t.note = msg.note
		return t, t.read()
	case tea.KeyPressMsg:
		return t, t.press(msg.String())
	}
	return t, nil
}

// setsShown is how many jobs of each set are shown: the next ones, and the last to die.
const setsShown = 100

// read starts a read of the data that the page shows, unless one is under way.
func (t *top) read() tea.Cmd {
	if !t.reading.IsZero() {
		return nil
	}
	t.reading = time.Now()
	ctx, redis, withSets := t.ctx, t.redis, t.tab == tabSets
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		var read topRead
		read.status, read.err = redis.Status(ctx)
		if !withSets || read.err != nil {
			return read
		}
		for _, home := range []inspect.Home{inspect.Retries(), inspect.Scheduled(), inspect.Dead()} {
			shown := 0
			for entry, err := range redis.Entries(ctx, home, 0) {
				if err != nil {
					read.err = err
					return read
				}
				read.sets = append(read.sets, entry)
				if shown++; shown == setsShown {
					break
				}
			}
		}
		return read
	}
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
	rows := len(t.rows())
	page := max(1, t.lines-topFrame)
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "1", "2", "3", "4":
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
		t.move(-rows)
	case "end", "G":
		t.move(rows)
	case "r":
		return t.read()
	case "p":
		t.askPause()
	case "Q":
		t.askQuiet()
	}
	return nil
}

// open shows another tab. The sets are read only while they are shown.
func (t *top) open(tab int) tea.Cmd {
	t.tab = tab
	if tab == tabSets {
		return t.read()
	}
	return nil
}

// move selects another row.
func (t *top) move(by int) {
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
