package logbook

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	// mostLines is how many lines may wait for a slow reader: more than a worker says in a minute unless something is very
	// wrong.
	mostLines = 4096
	// mostBytes bounds their text: a usual line is a few hundred bytes, but a dump of all goroutines is up to a megabyte.
	mostBytes = 4 << 20
	// sayEvery is how often it is said at most that lines were dropped: a reader that is slow and not stopped would have
	// to read that instead of lines.
	sayEvery = time.Second
)

// A line is what somebody has logged.
type line struct {
	at    time.Time
	level zerolog.Level
	text  []byte // one JSON object, as zerolog writes it
}

// A Book takes lines and carries them to their reader, in order. Its methods may be called from any goroutine, and only
// Flush waits.
type Book struct {
	log zerolog.Logger
	// carry hands a line to its reader, and may take its time.
	carry func(line)
	// note makes the Book's own line about so many dropped ones.
	note func(dropped int) line

	mu      sync.Mutex
	waiting []line // the oldest first
	bytes   int    // of their text
	missed  int    // lines dropped since that was last said, at saidAt
	saidAt  time.Time
	dropped uint64 // lines dropped in all
	// idle is closed when the goroutine that carries has ended; nil while there is none.
	idle chan struct{}
}

// newBook makes a Book; dress makes of a plain logger one that writes lines as this reader wants them.
func newBook(carry func(line), dress func(zerolog.Logger) zerolog.Logger) *Book {
	b := &Book{carry: carry}
	b.log = dress(zerolog.New(b))
	b.note = func(dropped int) line {
		said := line{at: time.Now(), level: zerolog.WarnLevel}
		log := dress(zerolog.New(&said)).Level(zerolog.WarnLevel)
		log.Warn().Int("lines", dropped).Msg("the log was not read as fast as it was written: lines were dropped")
		return said
	}
	return b
}

// Write implements io.Writer: what zerolog writes becomes the line's text, which the caller may not change then.
func (l *line) Write(text []byte) (int, error) {
	l.text = append([]byte(nil), text...) // a copy: zerolog uses its buffer again
	return len(text), nil
}

// Logger writes into the Book. Its level is the reader's; zerolog's own Level makes it less talkative.
func (b *Book) Logger() zerolog.Logger { return b.log }

// Dropped is how many lines were dropped so far.
func (b *Book) Dropped() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped
}

// Flush waits until all lines are with their reader, though no longer than d, and says whether they are. It is for the end
// of a program; lines may come after it.
func (b *Book) Flush(d time.Duration) bool {
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	if idle == nil {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-idle:
		return true
	case <-timer.C:
		return false
	}
}

// Write implements io.Writer, for lines without a level.
func (b *Book) Write(text []byte) (int, error) { return b.WriteLevel(zerolog.NoLevel, text) }

// WriteLevel implements zerolog.LevelWriter. It neither waits for the reader nor fails.
func (b *Book) WriteLevel(level zerolog.Level, text []byte) (int, error) {
	added := line{at: time.Now(), level: level}
	_, _ = added.Write(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	// The oldest go first: what happens now is what somebody will look for.
	for len(b.waiting) > 0 && (len(b.waiting) >= mostLines || b.bytes+len(text) > mostBytes) {
		b.takeLocked()
		b.missed++
		b.dropped++
	}
	b.waiting = append(b.waiting, added)
	b.bytes += len(text)
	if b.idle == nil {
		b.idle = make(chan struct{})
		go b.carryAll(b.idle)
	}
	return len(text), nil
}

func (b *Book) takeLocked() line {
	oldest := b.waiting[0]
	b.waiting[0] = line{}
	if b.waiting = b.waiting[1:]; len(b.waiting) == 0 {
		b.waiting = nil // what a burst has made long
	}
	b.bytes -= len(oldest.text)
	return oldest
}

// carryAll carries until nothing waits: a line at a time, so that a stopped reader holds up one line more than may wait.
func (b *Book) carryAll(idle chan struct{}) {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.idle == idle { // the reader has ended our goroutine: the next line begins another
			b.idle = nil
		}
		close(idle)
	}()
	for {
		next, ok := b.next()
		if !ok {
			return
		}
		b.carryOne(next)
	}
}

// next takes the oldest line, or makes one about those that were dropped. Without one the goroutine that carries is no more.
func (b *Book) next() (line, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := len(b.waiting) == 0
	if b.missed > 0 && (last || time.Since(b.saidAt) >= sayEvery) {
		said := b.note(b.missed)
		b.missed, b.saidAt = 0, said.at
		return said, true
	}
	if last {
		b.idle = nil
		return line{}, false
	}
	return b.takeLocked(), true
}

// carryOne hands a line over. A reader that panics or ends its goroutine is the user's, and costs a line, not the process.
func (b *Book) carryOne(l line) {
	carried := false
	defer func() {
		_ = recover()
		if !carried {
			b.mu.Lock()
			b.dropped++ // without saying so: the reader would do the same over that
			b.mu.Unlock()
		}
	}()
	l.text = cutNames(l.text)
	b.carry(l)
	carried = true
}
