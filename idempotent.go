package belay

import (
	"errors"
	"strings"
)

// An idempotence is what a class declares about a second run.
type idempotence struct {
	declared, holds bool
	reason          string
}

// Idempotent declares that a second run of a job has no further effect. belaytest.Idempotent tests it. The
// declaration only documents this, unless the client has DeduplicateIdempotent, which makes such classes
// unique.
func Idempotent() DefineOption { return declare(idempotence{declared: true, holds: true}) }

// NotIdempotent declares that a second run of a job may repeat its effects, and why that is acceptable; Define
// panics without a reason. The declaration does not change how jobs run. The command belayvet reports
// definitions that declare neither.
func NotIdempotent(reason string) DefineOption {
	return declare(idempotence{declared: true, reason: reason})
}

func declare(declared idempotence) DefineOption {
	return definitionOption(func(def *definition) {
		if def.idempotence.declared {
			def.problems = append(def.problems, errors.New("its idempotence is declared twice"))
		}
		if !declared.holds && strings.TrimSpace(declared.reason) == "" {
			def.problems = append(def.problems, errors.New("NotIdempotent needs a reason"))
		}
		def.idempotence, def.item.Idempotent = declared, declared.holds
	})
}
