package launcher

import (
	"bytes"
	"runtime"
	"strconv"
	"time"
)

const (
	// mostDump bounds the text of all goroutines' stacks in a dump.
	mostDump = 1 << 20
	// mostStack bounds the text of one goroutine's stack in a log line: the innermost calls, which say what
	// it waits for.
	mostStack = 8 << 10
	// mostStacks bounds the text of all goroutines' stacks that is searched for one goroutine. Go's runtime
	// stops the world while it writes that text, some milliseconds for each MiB.
	mostStacks = 16 << 20
)

// goroutine returns the number of the calling goroutine, 0 if the runtime does not show it. A processor calls
// it once, when it begins, so that a run costs nothing. pprof's labels would not do: handlers may change them,
// and goroutines that handlers start inherit them. Numbers are never reused.
func goroutine() int64 {
	var head [64]byte
	text, _ := bytes.CutPrefix(head[:runtime.Stack(head[:], false)], []byte("goroutine "))
	digits, _, _ := bytes.Cut(text, []byte(" "))
	number, _ := strconv.ParseInt(string(digits), 10, 64)
	return number
}

// allStacks returns the text of all goroutines' stacks, cut at mostStacks.
func allStacks() []byte {
	for size := mostDump; ; size *= 4 {
		text := make([]byte, size)
		if n := runtime.Stack(text, true); n < size || size >= mostStacks {
			return text[:n]
		}
	}
}

// stackOf finds one goroutine's stack in the text of all, and cuts it to mostStack at the end of a line.
func stackOf(all []byte, number int64) string {
	const between = "\n\n"
	head := []byte("goroutine " + strconv.FormatInt(number, 10) + " ")
	for len(all) > 0 {
		one, rest, _ := bytes.Cut(all, []byte(between))
		if bytes.HasPrefix(one, head) {
			return cutLines(one, mostStack)
		}
		all = rest
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
		l.cfg.Log.Info().Str("jid", r.Job.JID()).Str("class", r.Job.DisplayClass()).Str("queue", r.Queue).
			Int64("goroutine", r.Goroutine).Dur("for_ms", time.Since(r.StartedAt)).Dur("overdue_ms", r.Overdue).Msg("running")
	}
	stacks := make([]byte, mostDump)
	stacks = stacks[:runtime.Stack(stacks, true)]
	l.cfg.Log.Info().Str("goroutines", string(stacks)).Msg("dump")
}
