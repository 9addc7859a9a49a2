package launcher

import (
	"bytes"
	"fmt"
	"runtime"
	"time"

	"github.com/belayq/belay/logbook"
)

const (
	// maxDump bounds the text of all goroutines' stacks in a dump.
	maxDump = 1 << 20
	// maxStack bounds the text of one goroutine's stack in a log line: the innermost calls, which say what
	// it waits for.
	maxStack = 8 << 10
	// maxStacks bounds the text of all goroutines' stacks that is searched for one goroutine. Go's runtime
	// stops the world while it writes that text, some milliseconds for each MiB.
	maxStacks = 16 << 20
)

// goroutine returns the number of the calling goroutine, 0 if the runtime does not show it. A processor calls
// it once, when it begins, so that a run costs nothing. pprof's labels would not do: handlers may change them,
// and goroutines that handlers start inherit them. Numbers are never reused.
func goroutine() (number int64) {
	var head [64]byte
	_, _ = fmt.Sscanf(string(head[:runtime.Stack(head[:], false)]), "goroutine %d ", &number)
	return number
}

// allStacks returns the text of all goroutines' stacks, cut at most bytes.
func allStacks(most int) []byte {
	for size := maxDump; ; size *= 4 {
		text := make([]byte, size)
		if n := runtime.Stack(text, true); n < size || size >= most {
			return text[:n]
		}
	}
}

// stackOf finds one goroutine's stack in the text of all, and cuts it to maxStack at the end of a line.
func stackOf(all []byte, number int64) string {
	head := fmt.Appendf(nil, "goroutine %d ", number)
	for stack := range bytes.SplitSeq(all, []byte("\n\n")) {
		if bytes.HasPrefix(stack, head) {
			return cutLines(stack, maxStack)
		}
	}
	return ""
}

// cutLines cuts a text that is longer than most bytes after the last line that fits.
func cutLines(text []byte, most int) string {
	if len(text) <= most {
		return string(text)
	}
	text = text[:most]
	return string(text[:bytes.LastIndexByte(text, '\n')+1]) + "..."
}

// Dump logs the running jobs and the stacks of all goroutines, as Sidekiq does at TTIN.
func (l *Launcher) Dump() {
	for _, r := range l.Running() {
		l.cfg.Log.Info("running",
			"jid", r.Job.JID(), "class", r.Job.DisplayClass(), "queue", r.Queue, "goroutine", r.Goroutine,
			logbook.Millis("for_ms", time.Since(r.StartedAt)), logbook.Millis("overdue_ms", r.Overdue))
	}
	l.cfg.Log.Info("dump", "goroutines", string(allStacks(maxDump)))
}
