package belaytest

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
)

// A check compares one field of a waiting job with the value that an option sets.
type check struct {
	name, want string
	has        func(Waiting) string // returns the job's value
}

// checksOf returns a check for each field that is set in want, an empty job to which options were applied. The
// checks compare it with the job as it was pushed.
func checksOf(want belay.RawJob) []check {
	var checks []check
	for field, value := range reflect.ValueOf(want).Fields() {
		if !field.IsExported() || value.IsZero() || field.Name == "Extra" {
			continue
		}
		checks = append(checks, check{field.Name, shown(value), func(w Waiting) string {
			return shown(reflect.ValueOf(w.pushed).FieldByIndex(field.Index))
		}})
	}
	for _, extra := range want.Extra {
		checks = append(checks, check{"Field", extra.JSON, func(w Waiting) string {
			text, _ := w.Job.Field(extra.Name)
			return cmp.Or(text, notSet)
		}})
	}
	return checks
}

const notSet = "not set"

func shown(value reflect.Value) string {
	if value.IsZero() {
		return notSet
	}
	switch v := value.Interface().(type) {
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano) // in one zone
	case job.RetryRule:
		if v.Kind == job.RetryNever {
			return "none"
		}
		return strconv.Itoa(v.Limit)
	case *dedup.Rule: // without its function for the compared arguments, which the class defines
		return fmt.Sprintf("%s for %v, including scheduled %t, reschedule once %t, mark duplicates %t, per queue %t",
			v.Until, cmp.Or(v.TTL, dedup.DefaultTTL), v.IncludingScheduled, v.RescheduleOnce, v.MarkDuplicates, v.PerQueue)
	default:
		return fmt.Sprint(v)
	}
}
