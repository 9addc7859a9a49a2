package fetch

import (
	"time"

	"github.com/belayq/belay/lua"
)

// sinceBoot is the clock by which beats and looks are told from one another.
func sinceBoot() time.Duration { return lua.SinceBoot() }
