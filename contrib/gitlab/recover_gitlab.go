package gitlab

import (
	_ "embed"
	"time"

	"github.com/belayq/belay/lua"
)

//go:embed recover_gitlab.lua
var recoverText string

var recoverScript = lua.NewScript("recover_gitlab", recoverText)

// recover moves these jobs of a list's dead process to the head of their queue, or to the dead set, unless a
// heartbeat of the process exists: see lua.Keys.RecoverForeign.
func (k keys) recover(l list, orphans lua.Orphans, today time.Time) lua.Ask[lua.Recovered] {
	return k.RecoverForeign(recoverScript, l.key, l.heartbeats, orphans, today)
}
