package jobs

import "github.com/belayq/belay"

// A test's classes are thrown away.
var _ = belay.Define[int]("Thrown")

var _ = belay.NotIdempotent("")
