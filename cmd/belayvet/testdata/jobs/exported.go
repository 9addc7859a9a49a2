package jobs

import "github.com/belayq/belay"

// Welcome and Farewell are for another package's server.
var (
	Welcome  = belay.Define[int]("WelcomeEmail", belay.Idempotent())
	Farewell = belay.Define[int]("FarewellEmail", belay.Idempotent())
)
