package activejob

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/job"
)

// The names by which ActiveJob marks what JSON has no type for.
const (
	marker     = `"_aj_`
	serialized = "_aj_serialized"
	globalID   = "_aj_globalid"
	keywords   = "_aj_ruby2_keywords"
	rails      = "ActiveJob::Serializers::"
)

// plain returns a JSON value without ActiveJob's marks: see the package's documentation.
func plain(text []byte) ([]byte, error) {
	if !bytes.Contains(text, []byte(marker)) {
		return text, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, errors.New("invalid JSON")
	}
	value, err := unmarked(value)
	if err != nil {
		return nil, err
	}
	written, err := job.Marshal(value)
	return []byte(written), err
}

func unmarked(value any) (_ any, err error) {
	switch v := value.(type) {
	case []any:
		for n := range v {
			if v[n], err = unmarked(v[n]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		if id, is := v[globalID]; is && len(v) == 1 {
			return id, nil
		}
		serializer, typed := v[serialized]
		if serializer == rails+"DurationSerializer" {
			return nanoseconds(v["value"])
		}
		// Newer versions of Rails store more beside a value, such as the time_zone of a time.
		if name, _ := serializer.(string); strings.HasPrefix(name, rails) && v["value"] != nil {
			return unmarked(v["value"])
		}
		for name, member := range v {
			if strings.HasPrefix(name, marker[1:]) {
				delete(v, name)
			} else if v[name], err = unmarked(member); err != nil {
				return nil, err
			}
		}
		if own, has := v["value"]; typed && has && len(v) == 1 {
			return own, nil
		}
	}
	return value, nil
}

// nanoseconds returns a duration as Go writes one.
func nanoseconds(seconds any) (any, error) {
	number, _ := seconds.(json.Number)
	exact, err := number.Int64()
	if err == nil && exact <= math.MaxInt64/int64(time.Second) && exact >= math.MinInt64/int64(time.Second) {
		return exact * int64(time.Second), nil
	}
	near, err := number.Float64()
	if err != nil || math.Abs(near) > float64(math.MaxInt64/int64(time.Second)) {
		return nil, errors.New("a duration is not a number of seconds that a time.Duration can hold")
	}
	return int64(math.Round(near * float64(time.Second))), nil
}

// mark writes a value with the mark of a serializer of Rails.
func mark(serializer string, members map[string]any) ([]byte, error) {
	members[serialized] = rails + serializer
	text, err := job.Marshal(members)
	return []byte(text), err
}

// readPlain reads a value with or without a mark.
func readPlain(text []byte, into any) error {
	text, err := plain(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// A Symbol is a symbol in Ruby.
type Symbol string

// MarshalJSON writes the symbol in ActiveJob's form.
func (s Symbol) MarshalJSON() ([]byte, error) {
	return mark("SymbolSerializer", map[string]any{"value": string(s)})
}

// UnmarshalJSON reads ActiveJob's form, and a string.
func (s *Symbol) UnmarshalJSON(text []byte) error { return readPlain(text, (*string)(s)) }

// A GlobalID names a record of a Rails program, such as gid://shop/User/42. Ruby gets the record, which must be
// there when the job runs.
type GlobalID string

// MarshalJSON writes the id in ActiveJob's form.
func (g GlobalID) MarshalJSON() ([]byte, error) {
	text, err := job.Marshal(map[string]string{globalID: string(g)})
	return []byte(text), err
}

// UnmarshalJSON reads ActiveJob's form, and a string.
func (g *GlobalID) UnmarshalJSON(text []byte) error { return readPlain(text, (*string)(g)) }

// A Time is an ActiveSupport::TimeWithZone in Ruby, in the zone in which Ruby runs the job.
type Time struct{ time.Time }

// MarshalJSON writes the instant in ActiveJob's form, with nine digits.
func (t Time) MarshalJSON() ([]byte, error) {
	return mark("TimeWithZoneSerializer", map[string]any{"value": t.Format("2006-01-02T15:04:05.000000000Z07:00")})
}

// UnmarshalJSON reads ActiveJob's form, and RFC 3339.
func (t *Time) UnmarshalJSON(text []byte) error { return readPlain(text, &t.Time) }

// A Duration is an ActiveSupport::Duration in Ruby.
type Duration time.Duration

// MarshalJSON writes the duration in ActiveJob's form, in seconds.
func (d Duration) MarshalJSON() ([]byte, error) {
	var value any = int64(d) / int64(time.Second)
	if time.Duration(d)%time.Second != 0 {
		value = json.Number(strconv.FormatFloat(time.Duration(d).Seconds(), 'f', -1, 64))
	}
	return mark("DurationSerializer", map[string]any{"value": value, "parts": []any{[]any{Symbol("seconds"), value}}})
}

// UnmarshalJSON reads ActiveJob's form, and a number of nanoseconds.
func (d *Duration) UnmarshalJSON(text []byte) error { return readPlain(text, (*int64)(d)) }

// Keywords are keyword arguments in Ruby. T is a struct or a map that is written as a JSON object.
type Keywords[T any] struct{ Value T }

// MarshalJSON writes the object in ActiveJob's form.
func (k Keywords[T]) MarshalJSON() ([]byte, error) {
	text, err := job.Marshal(k.Value)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil || members == nil {
		return nil, fmt.Errorf("activejob: keyword arguments are a JSON object, not a %T", k.Value)
	}
	names, err := job.Marshal(slices.Sorted(maps.Keys(members)))
	if err != nil {
		return nil, err
	}
	members[keywords] = json.RawMessage(names)
	written, err := job.Marshal(members)
	return []byte(written), err
}

// UnmarshalJSON reads ActiveJob's form, and an object without its mark.
func (k *Keywords[T]) UnmarshalJSON(text []byte) error { return readPlain(text, &k.Value) }
