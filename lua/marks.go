package lua

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

// Marks are the marks of cancelled jobs that this process has read. A heartbeat reports that there are newer
// ones, and Read reads them. The zero Marks is empty, and asking it costs nothing.
type Marks struct {
	// newest is the score of the newest mark in Redis, by the last heartbeat. read is the score of the newest
	// mark when all marks had been read.
	newest, read atomic.Int64
	any          atomic.Bool

	// Confined to the reader. unmarked is the score of the last event that took marks back.
	cursor   Cursor
	unmarked int64

	mu sync.RWMutex
	at map[Mark]time.Time // when they were made
	// fresh becomes at when all marks have been read again; nil if they are not being read again.
	fresh map[Mark]time.Time
}

// Notice takes the score of the newest mark from a heartbeat reply, and reports whether there are marks to
// read.
func (m *Marks) Notice(score string) bool {
	newest, _ := strconv.ParseInt(score, 10, 64) // none is 0
	m.newest.Store(newest)
	return newest != m.read.Load()
}

// Event returns the score of the newest mark or other event up to which all marks have been read.
func (m *Marks) Event() int64 { return m.read.Load() }

// Read reads a page of the marks that are newer than those read before, and reports whether there may be more.
// The first time it reads without a notice. It is for one goroutine at a time.
func (m *Marks) Read(ctx context.Context, client driver.Client, keys Keys) (more bool, err error) {
	noticed := m.newest.Load()
	switch read := m.read.Load(); {
	case m.cursor.From == "", noticed < read, m.fresh == nil && m.Len() > 2*MaxMarks:
		// Redis has lost its data, or has removed many of the marks that are kept here.
		m.ReadAgain()
	case noticed == read && m.fresh == nil:
		return false, nil
	}
	page, err := keys.PageAfter(keys.Cancelled(), m.cursor).Do(ctx, client)
	if err != nil {
		return false, fmt.Errorf("read the marks of cancelled jobs: %w", err)
	}
	newest, unmarked := m.add(page, noticed)
	if unmarked > m.unmarked {
		m.unmarked = unmarked
		m.ReadAgain()
		return true, nil
	}
	if more = len(page) >= MaxItems; !more {
		m.complete()
		m.read.Store(newest)
		m.newest.CompareAndSwap(noticed, newest)
	}
	return more, nil
}

// add adds a page of marks. It returns the later of two scores, of the newest mark, if the page says so, and
// the given one; and the score of the last event that took marks back, if it is on the page.
func (m *Marks) add(page []Entry, known int64) (newest, unmarked int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	newest = known
	for _, entry := range page {
		score, err := strconv.ParseInt(entry.Score, 10, 64)
		switch {
		case err != nil:
		case entry.Bytes == newestMark: // it moves with each mark, so no page can continue from it
			newest = max(newest, score)
		case entry.Bytes == unmarkedEvent: // it moves, too
			unmarked = score
		default:
			m.cursor.Passed(entry, true)
			m.at[markOf(entry.Bytes)] = time.UnixMicro(score)
			if m.fresh != nil {
				m.fresh[markOf(entry.Bytes)] = time.UnixMicro(score)
			}
		}
	}
	m.any.Store(len(m.at) > 0)
	return newest, unmarked
}

// ReadAgain begins to read all marks again, also without a notice. Those that were read before bind until all
// have been read. It is for the goroutine that reads.
func (m *Marks) ReadAgain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cursor, m.fresh = Cursor{From: "-inf", To: "+inf"}, make(map[Mark]time.Time)
	if m.at == nil {
		m.at = make(map[Mark]time.Time)
	}
	m.read.Store(0)
}

// complete records that all marks have been read.
func (m *Marks) complete() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fresh != nil {
		m.at, m.fresh = m.fresh, nil
		m.any.Store(len(m.at) > 0)
	}
}

// Len returns how many marks have been read.
func (m *Marks) Len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.at)
}

// Binds reports whether a job is cancelled, as far as the marks have been read.
func (m *Marks) Binds(j *job.Job) bool {
	if !m.any.Load() {
		return false
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	at, marked := m.at[Mark{JID: j.JID()}]
	if marked && BindsAt(j, at) {
		return true
	}
	own := MarkOfJob(j)
	_, marked = m.at[own]
	return marked && own.Created != ""
}

// Invalid reports whether the batch of a job was invalidated, as far as the marks have been read.
func (m *Marks) Invalid(j *job.Job) bool {
	if !m.any.Load() {
		return false
	}
	b, member := BatchIn(j, job.FieldBatch)
	if !member {
		return false
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, marked := m.at[BatchMark(b.ID)]
	return marked
}

// BindsAt reports whether a mark made at an instant binds a job with its jid: the job was created before, and
// no operator has retried it since. A job without a time of its creation was created before.
func BindsAt(j *job.Job, marked time.Time) bool {
	if marked.UnixMicro() <= j.Unmarked() {
		return false
	}
	created, dated := j.CreatedAt()
	return !dated || !created.After(marked.Add(time.Microsecond)) // a float of seconds is no more precise
}
