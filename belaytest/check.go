package belaytest

import (
	"cmp"
	"fmt"
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

// checksOf are those of the options that made an item out of an empty one.
func checksOf(want belay.RawJob) []check {
	var checks []check
	add := func(given bool, name, want string, has func(Waiting) string) {
		if given {
			checks = append(checks, check{name, want, has})
		}
	}
	field := func(given bool, option, name, json string) {
		add(given, option, json, func(w Waiting) string {
			text, ok := w.Job.Field(name)
			if !ok {
				return "not set"
			}
			return text
		})
	}
	add(want.Queue != "", "Queue", want.Queue, func(w Waiting) string { return w.Queue })
	add(want.In != 0, "In", want.In.String(), inOf)
	add(!want.At.IsZero(), "At", stamp(want.At), atOf)
	add(want.Retry != job.RetryRule{}, "retries", retriesOf(want.Retry), func(w Waiting) string { return retriesOf(w.Job.RetryRule()) })
	field(want.RetryFor != 0, "RetryFor", "retry_for", strconv.Itoa(int(want.RetryFor/time.Second)))
	field(want.RetryQueue != "", "RetryQueue", "retry_queue", quoted(want.RetryQueue))
	field(want.NoDead, "NoDead", "dead", "false")
	field(want.Backtrace > 0, "Backtrace", "backtrace", strconv.Itoa(want.Backtrace))
	field(want.Backtrace == belay.AllLines, "Backtrace", "backtrace", "true")
	field(len(want.Tags) > 0, "Tags", "tags", quoted(want.Tags))
	field(want.JID != "", "JID", "jid", quoted(want.JID))
	add(want.PushOnce, "PushOnce", "true", func(w Waiting) string { return strconv.FormatBool(w.pushed.PushOnce) })
	add(want.Unique != nil, "Unique", ruleOf(want.Unique), func(w Waiting) string { return ruleOf(w.pushed.Unique) })
	for _, extra := range want.Extra {
		field(true, "Field", extra.Name, extra.JSON)
	}
	return checks
}

func inOf(w Waiting) string {
	if w.pushed.In == 0 {
		return "not said"
	}
	return w.pushed.In.String()
}

func atOf(w Waiting) string {
	if w.pushed.At.IsZero() {
		return "not said"
	}
	return stamp(w.pushed.At)
}

// stamp is an instant, whatever its zone.
func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

func retriesOf(rule job.RetryRule) string {
	switch rule.Kind {
	case job.RetryNever:
		return "none"
	case job.RetryLimit:
		return strconv.Itoa(rule.Limit)
	}
	return "the server's"
}

// ruleOf is what a job says of being unique, apart from what it compares, which its class says.
func ruleOf(rule *belay.UniqueRule) string {
	if rule == nil {
		return "not said"
	}
	text := fmt.Sprintf("%s for %v", rule.Until, cmp.Or(rule.TTL, dedup.DefaultTTL))
	for _, more := range []struct {
		said bool
		text string
	}{{rule.IncludingScheduled, "including scheduled"}, {rule.RescheduleOnce, "rescheduled once"}, {rule.PerQueue, "per queue"}} {
		if more.said {
			text += ", " + more.text
		}
	}
	return text
}

// quoted is a value as the payload has it.
func quoted(value any) string {
	text, err := job.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return text
}
