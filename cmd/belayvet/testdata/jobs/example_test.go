package jobs

import "github.com/belayq/belay"

// An example's are copied.
var _ = belay.Define[int]("Copied") // want `^Copied has neither`
