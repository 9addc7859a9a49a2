package activejob

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/belayq/belay/job"
)

// Attributes returns the CurrentAttributes that Sidekiq's middleware stored with a job, by their names in Ruby.
// T is a struct or a map. Sidekiq 7 stores an object, Sidekiq 8 pairs in ActiveJob's form, and stored may be
// either: belay.Info(ctx).Meta["cattr"], or the field "cattr_1" of a second class, which middleware reads with
// Field. The values are those that a handler gets of such arguments. Without attributes T is its zero value.
// The error shows none of them.
func Attributes[T any](stored string) (attributes T, err error) {
	if stored == "" {
		return attributes, nil
	}
	unfit := func() error { return fmt.Errorf("activejob: the stored CurrentAttributes do not fit a %T", attributes) }
	text, err := plain([]byte(stored))
	if err != nil {
		return attributes, unfit()
	}
	var pairs [][]json.RawMessage
	if json.Unmarshal(text, &pairs) == nil && pairs != nil {
		members := make(map[string]json.RawMessage, len(pairs))
		for _, pair := range pairs {
			var name string
			if len(pair) != 2 || json.Unmarshal(pair[0], &name) != nil {
				return attributes, unfit()
			}
			members[name] = pair[1]
		}
		object, err := job.Marshal(members)
		if err != nil {
			return attributes, unfit()
		}
		text = []byte(object)
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber() // as in arguments: no float64 is 9007199254740993
	if decoder.Decode(&attributes) != nil {
		var none T
		return none, unfit()
	}
	return attributes, nil
}
