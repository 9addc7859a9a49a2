package belaytest

import (
	"cmp"
	"errors"
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

// checksOf returns a check for each field that the options set, also to its zero value. The checks compare it
// with the job as it was pushed.
func checksOf(options []belay.JobOption) []check {
	// A field that the options empty differs from one that they leave alone only in a job that has it.
	want, full := belay.RawJob{}, filled()
	for _, option := range options {
		option(&want)
		option(&full)
	}
	var checks []check
	for field, value := range reflect.ValueOf(want).Fields() {
		if !field.IsExported() || field.Name == "Extra" {
			continue
		}
		if value.IsZero() && !reflect.ValueOf(full).FieldByIndex(field.Index).IsZero() {
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

// filled returns a job that has something in each exported field.
func filled() (j belay.RawJob) {
	for field, value := range reflect.ValueOf(&j).Elem().Fields() {
		if field.IsExported() {
			fill(value)
		}
	}
	return j
}

func fill(value reflect.Value) {
	switch value.Kind() {
	case reflect.Bool:
		value.SetBool(true)
	case reflect.String:
		value.SetString("x")
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
	case reflect.Struct:
		if at, is := value.Addr().Interface().(*time.Time); is {
			*at = time.Unix(1, 0)
		} else {
			fill(value.Field(0))
		}
	default:
		value.SetInt(1)
	}
}

// checkOptions returns why a comparison with these options would say nothing; nil if it says something. A push
// with an invalid option fails, so no job has it.
func checkOptions(class string, options []belay.JobOption) error {
	j := belay.RawJob{Class: class, Args: []any{}}
	for at, option := range options {
		if option == nil {
			return errors.New("an option is nil")
		}
		if len(checksOf(options[at:at+1])) == 0 {
			return fmt.Errorf("option %d sets no field of the job that can be compared", at+1)
		}
		option(&j)
	}
	j.Unique, j.Batch, j.Then = nil, nil, nil // those of a class may need its definition
	if err := j.Check(); err != nil {
		return fmt.Errorf("an option is invalid: %w", err)
	}
	return nil
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
