// Command belayvet checks a program's jobs, as go vet checks its Printf calls:
//
//	go install -C cmd/belayvet .                 in a clone of Belay
//	go vet -vettool=$(which belayvet) ./...      in your program
//
// It exists because every job may run twice: a worker can die after the work and before Redis has recorded
// it. The author of a handler must consider that and declare it in the definition:
//
//	idempotence  a definition has neither Idempotent nor NotIdempotent; a NotIdempotent has no reason
//
// Switch the check off by its name: -idempotence=false. Tests may define jobs without a declaration; examples
// may not, because they are copied. belayvet assumes that everything it cannot see is right, such as options
// that a function returns. So a report should be correct, but the lack of one proves nothing.
//
// It is a module of its own, so that programs which import Belay do not get its dependency.
package main

import (
	"flag"

	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() {
	// Older versions had checks with these names, and build files may switch them off.
	for _, name := range []string{"onehandler", "uniqueeffects"} {
		flag.Bool(name, false, "no effect: kept so that build files which set it still work")
	}
	unitchecker.Main(idempotence)
}
