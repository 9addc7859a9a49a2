package driver

import (
	"errors"
	"strings"
	"sync/atomic"
)

// A Dialect is what an adapter has learned about the scripts of one server, and the sequence by which a Do is
// carried out on it. A client shares it with its lanes. The zero Dialect is ready for use.
type Dialect struct {
	// plain: the server does not know a "#!lua" line (miniredis, Redis before 7).
	plain atomic.Bool
}

// A Naming is how scripts are named to the server in one pipeline.
type Naming struct {
	text  bool // by their text (EVAL) and not by its address (EVALSHA)
	flags bool // with the first line that names flags
}

// Words are the first two words of the command that runs script.
func (n Naming) Words(script *Script) (verb, body string) {
	text, digest := script.Text(n.flags)
	if n.text {
		return "EVAL", text
	}
	return "EVALSHA", digest
}

// Send is the one thing that an adapter does itself: send calls[i], for each i of indexes in this order, as one
// pipeline in which nothing is ever re-sent, and store each answer in replies[i].
type Send func(calls []Call, replies []Reply, indexes []int, how Naming)

// Do carries out Client.Do: what may not be sent is refused, the rest goes out once, and of that only the
// scripts that the server did not know are sent again, in their order, by their text.
func (d *Dialect) Do(calls []Call, send Send) []Reply {
	replies := make([]Reply, len(calls))
	indexes := make([]int, 0, len(calls))
	for i := range calls {
		if replies[i].Err = calls[i].Check(); replies[i].Err == nil {
			indexes = append(indexes, i)
		}
	}
	flags := !d.plain.Load()
	once(send, calls, replies, indexes, Naming{flags: flags})
	unknown := which(replies, indexes, isUnknownScript)
	once(send, calls, replies, unknown, Naming{text: true, flags: flags})
	if flags {
		d.withoutFlags(send, calls, replies, which(replies, unknown, isNotCompiled))
	}
	return replies
}

// withoutFlags sends scripts that did not compile once more, without their first line where that names flags.
// If any then compiles, the server is one that does not know such lines and is not asked again.
func (d *Dialect) withoutFlags(send Send, calls []Call, replies []Reply, refused []int) {
	flagged := refused[:0]
	for _, i := range refused {
		if calls[i].Script.sourceSHA != calls[i].Script.plainSHA {
			flagged = append(flagged, i)
		}
	}
	once(send, calls, replies, flagged, Naming{text: true})
	if len(which(replies, flagged, isNotCompiled)) < len(flagged) {
		d.plain.Store(true)
	}
}

func once(send Send, calls []Call, replies []Reply, indexes []int, how Naming) {
	if len(indexes) > 0 {
		send(calls, replies, indexes, how)
	}
}

// which of the indexes were answered with an error reply that is so.
func which(replies []Reply, indexes []int, is func(*ServerError) bool) []int {
	var found []int
	for _, i := range indexes {
		var refused *ServerError
		if errors.As(replies[i].Err, &refused) && is(refused) {
			found = append(found, i)
		}
	}
	return found
}

func isUnknownScript(e *ServerError) bool { return e.Code == "NOSCRIPT" }

func isNotCompiled(e *ServerError) bool {
	return strings.Contains(e.Message, "rror compiling script")
}
