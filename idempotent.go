package belay

import (
	"errors"
	"strings"
)

// Idempotence is what a class declares about a second run. Every job may run twice, if its process dies
// before the result is settled.
type Idempotence struct {
	// Declared reports whether the class has Idempotent or NotIdempotent.
	Declared bool
	// Holds reports whether a second run of a job has no further effect.
	Holds bool
	// Reason is the reason given to NotIdempotent.
	Reason string
}

// Idempotent declares that a second run of a job has no further effect. belaytest.Idempotent tests it. The
// declaration only documents this, unless the client has DeduplicateIdempotent, which makes such classes
// unique.
func Idempotent() DefineOption { return declare(Idempotence{Declared: true, Holds: true}) }

// NotIdempotent declares that a second run of a job may repeat its effects, and why that is acceptable; Define
// panics without a reason. The declaration does not change how jobs run. The command belayvet reports
// definitions that declare neither.
func NotIdempotent(reason string) DefineOption {
	return declare(Idempotence{Declared: true, Reason: reason})
}

func declare(declared Idempotence) DefineOption {
	return definitionOption(func(def *definition) {
		if def.idempotence.Declared {
			def.wrong = append(def.wrong, errors.New("its idempotence is declared twice"))
		}
		if !declared.Holds && strings.TrimSpace(declared.Reason) == "" {
			def.wrong = append(def.wrong, errors.New("NotIdempotent needs a reason"))
		}
		def.idempotence, def.item.Idempotent = declared, declared.Holds
	})
}
