package logbook

import (
	"bytes"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	// mostLines is how many lines may wait for a slow reader: more than a healthy worker logs in a minute.
	mostLines = 4096
	// mostBytes bounds their text: most lines are a few hundred bytes, but a dump of all goroutines is up to
	// a megabyte.
	mostBytes = 4 << 20
	// noteEvery is the minimum time between two lines about dropped lines: with more of them a slow reader
	// would read little else.
	noteEvery = time.Second
)

// A line is one log line.
type line struct {
	at    time.Time
	level zerolog.Level
	text  []byte // one JSON object, as zerolog writes it
}

// A Book buffers lines and writes them in order. Its methods may be called from any goroutine, and only Flush
// waits.
type Book struct {
	log zerolog.Logger
	// write writes a line, and may block.
	write func(line)
	// note makes the Book's own line about dropped lines.
	note func(dropped int) line

	mu      sync.Mutex
	waiting []line // the oldest first
	bytes   int    // of their text
	missed  int    // lines dropped since the last note, at notedAt
	notedAt time.Time
	dropped uint64 // lines dropped in all
	// idle is closed when the goroutine that writes has ended; nil while there is none.
	idle chan struct{}
}

// A sink takes the lines of a zerolog.Logger.
type sink func(line)

// Write implements io.Writer, for lines without a level.
func (s sink) Write(text []byte) (int, error) { return s.WriteLevel(zerolog.NoLevel, text) }

// WriteLevel implements zerolog.LevelWriter. It never fails.
func (s sink) WriteLevel(level zerolog.Level, text []byte) (int, error) {
	s(line{at: time.Now(), level: level, text: bytes.Clone(text)}) // zerolog uses its buffer again
	return len(text), nil
}

// newBook makes a Book; dress configures the loggers that write into it.
func newBook(write func(line), dress func(zerolog.Logger) zerolog.Logger) *Book {
	b := &Book{write: write}
	b.log = dress(zerolog.New(sink(b.add)))
	b.note = func(dropped int) (noted line) {
		log := dress(zerolog.New(sink(func(l line) { noted = l }))).Level(zerolog.WarnLevel)
		log.Warn().Int("lines", dropped).Msg("log lines dropped; the reader of the log is too slow")
		return noted
	}
	return b
}

// Logger returns a logger that writes into the Book. Its level is the reader's; zerolog's Level can only
// raise it.
func (b *Book) Logger() zerolog.Logger { return b.log }

// Dropped returns how many lines were dropped so far.
func (b *Book) Dropped() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped
}

// Flush waits until all lines are written, at most for d, and reports whether they are. It is for the end of
// a program; more lines may follow.
func (b *Book) Flush(d time.Duration) bool {
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	if idle == nil {
		return true
	}
	select {
	case <-idle:
		return true
	case <-time.After(d):
		return false
	}
}

// add adds a line. It never blocks.
func (b *Book) add(added line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// The oldest lines are dropped first, because the newest matter most.
	for len(b.waiting) > 0 && (len(b.waiting) >= mostLines || b.bytes+len(added.text) > mostBytes) {
		b.takeLocked()
		b.missed++
		b.dropped++
	}
	b.waiting = append(b.waiting, added)
	b.bytes += len(added.text)
	if b.idle == nil {
		b.idle = make(chan struct{})
		go b.writeAll(b.idle)
	}
}

func (b *Book) takeLocked() line {
	oldest := b.waiting[0]
	b.waiting[0] = line{}
	if b.waiting = b.waiting[1:]; len(b.waiting) == 0 {
		b.waiting = nil // frees the array after a burst
	}
	b.bytes -= len(oldest.text)
	return oldest
}

// writeAll writes lines, one at a time, until none waits.
func (b *Book) writeAll(idle chan struct{}) {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.idle == idle { // the reader has ended this goroutine: the next line starts another
			b.idle = nil
		}
		close(idle)
	}()
	for {
		next, ok := b.next()
		if !ok {
			return
		}
		b.writeOne(next)
	}
}

// next takes the oldest line, or makes one about dropped lines. Without a line the goroutine that writes
// ends.
func (b *Book) next() (line, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := len(b.waiting) == 0
	if b.missed > 0 && (last || time.Since(b.notedAt) >= noteEvery) {
		noted := b.note(b.missed)
		b.missed, b.notedAt = 0, noted.at
		return noted, true
	}
	if last {
		b.idle = nil
		return line{}, false
	}
	return b.takeLocked(), true
}

// writeOne writes a line. A user's writer that panics or ends its goroutine costs a line, not the process.
func (b *Book) writeOne(l line) {
	written := false
	defer func() {
		_ = recover()
		if !written {
			b.mu.Lock()
			b.dropped++ // without a note, which would fail in the same way
			b.mu.Unlock()
		}
	}()
	l.text = cutNames(l.text)
	b.write(l)
	written = true
}
