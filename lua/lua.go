package lua

import (
	"embed"
	"regexp"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/link"
)

// Bounds of one script call. They keep each call near a millisecond, because Redis does nothing else while a
// script runs.
const (
	// MaxItems is how many jobs one call moves or returns.
	MaxItems = 256
	// MaxBytes is how many bytes of jobs one call moves or returns; the last job may exceed it by its own
	// size.
	MaxBytes = link.MaxPage
	// MaxQueues is how many queues one process may serve: recover declares three keys for each.
	MaxQueues = 128
	// MaxWaits is how many queues one process waits for, with a connection for each. It reads further queues
	// a few times a second. So a process with a queue for each of many tenants needs no more connections
	// than one with few queues.
	MaxWaits = 16
)

//go:embed *.lua shared/*.lua
var files embed.FS

// load reads the script called name. It panics if the file is missing, which is a bug in this package.
func load(name string) *driver.Script { return driver.NewScript(name, source(name+".lua")) }

// NewScript returns a script of another package, which may include what Belay's own scripts share: each line
// "-- include NAME" is replaced by shared/NAME.lua. It panics if there is no such file.
func NewScript(name, text string) *driver.Script { return driver.NewScript(name, expand(text)) }

// source returns the text of a file with all that it includes.
func source(path string) string {
	text, err := files.ReadFile(path)
	if err != nil {
		panic("lua: " + err.Error())
	}
	return expand(string(text))
}

// expand replaces each line "-- include NAME" by shared/NAME.lua, which may include others.
func expand(text string) string {
	return include.ReplaceAllStringFunc(text, func(line string) string {
		return source("shared/" + include.FindStringSubmatch(line)[1] + ".lua")
	})
}

var include = regexp.MustCompile(`(?m)^-- include (\w+)\n`)
