// Command belayvet looks at a program's jobs as go vet looks at its Printf calls:
//
//	go install -C cmd/belayvet .                 in a clone of Belay
//	go vet -vettool=$(which belayvet) ./...      in your program
//
// It exists because every job may be run twice: when a worker dies after the work was done and before that was known. Whoever
// writes a handler has to have thought of that, and the definition is where it is said:
//
//	idempotence  a definition says neither Idempotent nor NotIdempotent; a NotIdempotent has no reason
//	onehandler   a class gets a second handler on the same server, which panics when the program starts
//
// Each is switched off by its name: -onehandler=false. Tests may define jobs as they like; examples may not, because they
// are copied. It believes what it cannot see: options that a function returns, and handlers that another package registers.
// So what it says is meant to be right, and what it does not say proves nothing.
//
// It is a module of its own, so that its dependency is nobody's who imports Belay.
package main

import (
	"flag"

	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() {
	// Older versions reported unique classes that are NotIdempotent under this name, and build files may
	// switch it off.
	flag.Bool("uniqueeffects", false, "no effect: kept so that build files which set it still work")
	unitchecker.Main(idempotence, oneHandler)
}
