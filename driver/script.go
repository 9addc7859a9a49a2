package driver

import (
	"crypto/sha1" //nolint:gosec // EVALSHA's digest of a script, not a secret
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
)

// A Script is a Lua text with its digest, under which Redis keeps it.
type Script struct {
	name, source, plain string
	sourceSHA, plainSHA string
}

// NewScript returns the script with this name and text. A first line that begins with "#!" has flags for
// Redis 7; a server that does not know such lines (miniredis) gets the text without it.
func NewScript(name, source string) *Script {
	plain := source
	if strings.HasPrefix(source, "#!") {
		// The line stays as a comment so that error messages keep their line numbers.
		plain = "--" + source
	}
	return &Script{name: name, source: source, plain: plain, sourceSHA: sha(source), plainSHA: sha(plain)}
}

// Name returns the script's file name without ".lua".
func (s *Script) Name() string { return s.name }

// Text returns the source to load and its SHA1 in hex. flags reports whether the server knows a "#!lua" line.
func (s *Script) Text(flags bool) (source, sha1 string) {
	if flags {
		return s.source, s.sourceSHA
	}
	return s.plain, s.plainSHA
}

func sha(text string) string {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

// A ScriptSender sends calls to one server, each script in a form that the server can run, and remembers
// whether that server knows script flags. A client shares it with its lanes. The zero ScriptSender is ready.
type ScriptSender struct {
	// plain: the server does not know a "#!lua" line (miniredis, Redis before 7).
	plain atomic.Bool
}

// A ScriptForm is how the commands of one pipeline name their scripts.
type ScriptForm struct {
	text  bool // their text (EVAL) instead of its digest (EVALSHA)
	flags bool // of the text with the "#!lua" line
}

// Words returns the first two words of the command that runs script.
func (f ScriptForm) Words(script *Script) (verb, body string) {
	text, digest := script.Text(f.flags)
	if f.text {
		return "EVAL", text
	}
	return "EVALSHA", digest
}

// A Send is an adapter's part: it sends calls[i], for each i of indexes in this order, as one pipeline,
// never sends anything again, and stores each reply in replies[i].
type Send func(calls []Call, replies []Reply, indexes []int, form ScriptForm)

// Do implements Client.Do: it refuses calls that must not be sent and sends the others once. Only the
// scripts that the server did not have are sent again, in order, by their text, and behind them, in the same
// pipeline, the calls with Announces.
func (s *ScriptSender) Do(calls []Call, send Send) []Reply {
	replies := make([]Reply, len(calls))
	indexes := make([]int, 0, len(calls))
	for i := range calls {
		if replies[i].Err = calls[i].Check(); replies[i].Err == nil {
			indexes = append(indexes, i)
		}
	}
	flags := !s.plain.Load()
	once(send, calls, replies, indexes, ScriptForm{flags: flags})
	unknown := matching(replies, indexes, isUnknownScript)
	if len(unknown) == 0 {
		return replies
	}
	behind := slices.DeleteFunc(indexes, func(i int) bool { return !calls[i].Announces })
	once(send, calls, replies, slices.Concat(unknown, behind), ScriptForm{text: true, flags: flags})
	if flags {
		s.withoutFlags(send, calls, replies, matching(replies, unknown, isNotCompiled), behind)
	}
	return replies
}

// withoutFlags sends scripts that did not compile once more, without their line of flags. If any of them then
// compiles, the server does not know such lines, and gets no more of them.
func (s *ScriptSender) withoutFlags(send Send, calls []Call, replies []Reply, refused, behind []int) {
	flagged := refused[:0]
	for _, i := range refused {
		if calls[i].Script.sourceSHA != calls[i].Script.plainSHA {
			flagged = append(flagged, i)
		}
	}
	if len(flagged) == 0 {
		return
	}
	once(send, calls, replies, slices.Concat(flagged, behind), ScriptForm{text: true})
	if len(matching(replies, flagged, isNotCompiled)) < len(flagged) {
		s.plain.Store(true)
	}
}

func once(send Send, calls []Call, replies []Reply, indexes []int, form ScriptForm) {
	if len(indexes) > 0 {
		send(calls, replies, indexes, form)
	}
}

// matching returns those of indexes whose call got an error reply that matches.
func matching(replies []Reply, indexes []int, matches func(*ServerError) bool) []int {
	var found []int
	for _, i := range indexes {
		var refused *ServerError
		if errors.As(replies[i].Err, &refused) && matches(refused) {
			found = append(found, i)
		}
	}
	return found
}

func isUnknownScript(e *ServerError) bool { return e.Code == "NOSCRIPT" }

func isNotCompiled(e *ServerError) bool {
	return strings.Contains(e.Message, "rror compiling script")
}
