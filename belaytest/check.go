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

// A check is one thing that an option says of a job: its name, what it should be, and what it is.
type check struct {
	name, want string
	has        func(Waiting) string
}

// checksOf returns a check for each field that options have set in an empty job. It is compared with the job
// as it was pushed.
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
		return v.UTC().Format(time.RFC3339Nano) // whatever its zone
	case job.RetryRule:
		if v.Kind == job.RetryNever {
			return "none"
		}
		return strconv.Itoa(v.Limit)
	case *dedup.Rule: // without what it compares, which the class says
		return fmt.Sprintf("%s for %v, including scheduled %t, reschedule once %t, mark duplicates %t, per queue %t",
			v.Until, cmp.Or(v.TTL, dedup.DefaultTTL), v.IncludingScheduled, v.RescheduleOnce, v.MarkDuplicates, v.PerQueue)
	default:
		return fmt.Sprint(v)
	}
}
