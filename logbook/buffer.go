package logbook

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// maxRecords is how many records may wait for a slow reader: more than a healthy worker logs in a minute.
	maxRecords = 4096
	// maxBytes bounds their texts: most records have a few hundred bytes, but a dump of all goroutines has up
	// to a megabyte.
	maxBytes = 4 << 20
	// noteEvery is the minimum time between two lines about dropped records: with more of them a slow reader
	// would read little else.
	noteEvery = time.Second
)

// An entry is what waits: a record, or a line that zerolog has written.
type entry struct {
	to     slog.Handler // the Buffer's, with attributes and groups
	record slog.Record
	out    io.Writer // for a line
	line   []byte
	bytes  int
}

// A Buffer holds records and passes them on in order. Its methods may be called from any goroutine, and only
// Flush waits.
type Buffer struct {
	to slog.Handler

	mu      sync.Mutex
	waiting []entry // the oldest first
	bytes   int     // of all that wait
	missed  int     // records dropped since the last note, at notedAt
	notedAt time.Time
	dropped uint64 // records dropped in all
	// idle is closed when the goroutine that writes has ended; nil while there is none.
	idle chan struct{}
}

// New returns a Buffer that passes records to h, with the time of logging, in the Buffer's goroutine. Records
// that h is not Enabled for cost nothing. It ignores errors of h. If h is of JSON, the caller makes the line,
// and only the line waits; with another handler the values of a record must not change afterwards.
func New(h slog.Handler) *Buffer { return &Buffer{to: h} }

// Behind returns a logger with the lines of log that does not block, and its Buffer: log itself, if it writes
// into a Buffer.
func Behind(log *slog.Logger) (*Buffer, *slog.Logger) {
	if into, ok := log.Handler().(handler); ok {
		return into.buffer, log
	}
	buffer := New(log.Handler())
	return buffer, buffer.Logger()
}

// Logger returns a logger that writes into the Buffer.
func (b *Buffer) Logger() *slog.Logger {
	if h, ok := b.to.(zerologHandler); ok && h.out != nil {
		return slog.New(handler{b, h.into(lineWriter{b, h.out}), true})
	}
	return slog.New(handler{b, b.to, false})
}

// Dropped returns how many records were dropped so far.
func (b *Buffer) Dropped() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped
}

// Flush waits until all records are passed on, at most for d, and reports whether they are. It is for the end
// of a program; more records may follow.
func (b *Buffer) Flush(d time.Duration) bool {
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

// A handler writes into a Buffer.
type handler struct {
	buffer *Buffer
	to     slog.Handler // the Buffer's, with attributes and groups
	lines  bool         // to makes lines and writes them into the buffer itself
}

// Enabled implements slog.Handler.
func (h handler) Enabled(ctx context.Context, level slog.Level) bool { return h.to.Enabled(ctx, level) }

// Handle implements slog.Handler. It never blocks and never fails.
func (h handler) Handle(ctx context.Context, record slog.Record) error {
	if cut, bytes := cutNames(record); h.lines {
		h.buffer.guard(func() { _ = h.to.Handle(ctx, cut) }) // a value may panic
	} else {
		h.buffer.add(entry{to: h.to, record: cut, bytes: bytes})
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.to = h.to.WithAttrs(attrs)
	return h
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	h.to = h.to.WithGroup(name)
	return h
}

// A lineWriter writes lines to a writer by way of a Buffer.
type lineWriter struct {
	buffer *Buffer
	out    io.Writer
}

// Write implements io.Writer. It never blocks and never fails.
func (l lineWriter) Write(line []byte) (int, error) {
	l.buffer.add(entry{out: l.out, line: bytes.Clone(line), bytes: len(line)})
	return len(line), nil
}

// add adds a record. It never blocks.
func (b *Buffer) add(added entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// The oldest records are dropped first, because the newest matter most.
	for len(b.waiting) > 0 && (len(b.waiting) >= maxRecords || b.bytes+added.bytes > maxBytes) {
		b.takeLocked()
		b.missed++
		b.dropped++
	}
	b.waiting = append(b.waiting, added)
	b.bytes += added.bytes
	if b.idle == nil {
		b.idle = make(chan struct{})
		go b.passOn(b.idle)
	}
}

func (b *Buffer) takeLocked() entry {
	oldest := b.waiting[0]
	b.waiting[0] = entry{}
	if b.waiting = b.waiting[1:]; len(b.waiting) == 0 {
		b.waiting = nil // frees the array after a burst
	}
	b.bytes -= oldest.bytes
	return oldest
}

// passOn passes records on, one at a time, until none waits.
func (b *Buffer) passOn(idle chan struct{}) {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.idle == idle { // the reader has ended this goroutine: the next record starts another
			b.idle = nil
		}
		close(idle)
	}()
	for {
		next, ok := b.next()
		if !ok {
			return
		}
		b.handle(next)
	}
}

// next takes the oldest record, or makes one about dropped records. Without a record the goroutine that
// passes them on ends.
func (b *Buffer) next() (entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := len(b.waiting) == 0
	if b.missed > 0 && (last || time.Since(b.notedAt) >= noteEvery) {
		noted := slog.NewRecord(time.Now(), slog.LevelWarn, "log lines dropped; the reader of the log is too slow", 0)
		noted.AddAttrs(slog.Int("lines", b.missed))
		b.missed, b.notedAt = 0, noted.Time
		return entry{to: b.to, record: noted}, true
	}
	if last {
		b.idle = nil
		return entry{}, false
	}
	return b.takeLocked(), true
}

// handle passes a record on.
func (b *Buffer) handle(e entry) {
	b.guard(func() {
		switch {
		case e.line != nil:
			_, _ = e.out.Write(e.line)
		case e.to.Enabled(context.Background(), e.record.Level): // asked again for a note, and because it may change
			_ = e.to.Handle(context.Background(), e.record)
		}
	})
}

// guard does a part of the way of a record. A user's handler or value that panics or ends its goroutine costs a
// record, not the process.
func (b *Buffer) guard(do func()) {
	done := false
	defer func() {
		_ = recover()
		if !done {
			b.mu.Lock()
			b.dropped++ // without a note, which would fail in the same way
			b.mu.Unlock()
		}
	}()
	do()
	done = true
}

// OrDiscard returns log, or one that discards all if log is nil.
func OrDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

// Millis returns a field with a duration in milliseconds, as zerolog writes durations.
func Millis(key string, d time.Duration) slog.Attr {
	return slog.Float64(key, float64(d)/float64(time.Millisecond))
}
