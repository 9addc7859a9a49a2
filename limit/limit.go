package limit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/belayq/belay/lua"
)

const (
	// MaxConcurrency is the largest Concurrency. It is far above what a fleet has processors.
	MaxConcurrency = 1_000_000
	// MaxWindow is how many starts a Window counts at most: Redis stores the time of each.
	MaxWindow = 1_000
	// MaxLeaky is how many starts a Leaky rate may have in its time.
	MaxLeaky = 1_000_000
	// MaxPer is the longest time of a rate. What a rate needs stays in Redis as long.
	MaxPer = 31 * 24 * time.Hour
	// MaxKey is how many bytes a key may have that is stored as it is; see Limit.Gate.
	MaxKey = 200
)

// A Limit says how many jobs may run at once in the fleet, how fast they may start, or both. belay.Limited and
// belay.LimitedTo give a class a limit. Several classes may have the same one; its size must be the same then.
type Limit struct {
	// Name identifies the limit in Redis: 1 to 64 letters, digits, dashes and underscores. Limits of one name
	// are one limit, in all programs of a keyspace.
	Name string
	// Concurrency is how many jobs run at once, at most 1,000,000. Default: 0, any number.
	Concurrency int
	// Rate is how many jobs start in a time: Window and Leaky make it. Default: any number.
	Rate Rate
}

// A Rate is how many jobs may start in a time. Window and Leaky make it; the zero Rate is no rate.
type Rate struct {
	kind   lua.RateKind
	starts int
	per    time.Duration
}

// Window returns a rate of at most n starts in any span of per: the minute before each start counts, not the
// minute of the clock. n is at most 1,000, because Redis stores the time of each start, and per is in whole
// milliseconds, at most 31 days.
func Window(n int, per time.Duration) Rate { return Rate{kind: lua.RateWindow, starts: n, per: per} }

// Leaky returns a rate of n starts at once and then one in each n-th part of per, for n of any size up to
// 1,000,000. So up to twice n jobs may start in a span of per, if none has started for a while before it. per
// is in whole milliseconds, at most 31 days. Window counts exactly.
func Leaky(n int, per time.Duration) Rate { return Rate{kind: lua.RateLeaky, starts: n, per: per} }

// None reports whether the rate is none.
func (r Rate) None() bool { return r == Rate{} }

// names are the valid names of limits. None has a colon, so a gate's name has one limit and one key. None has a
// dot, which the gates of rules for classes have.
var names = regexp.MustCompile(`\A[A-Za-z0-9_-]{1,64}\z`)

// Check returns everything that is wrong with the limit.
func (l Limit) Check() error {
	var errs []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("the limit %q: "+format, append([]any{l.Name}, args...)...))
		}
	}
	must(names.MatchString(l.Name), "its name must have 1 to 64 letters, digits, dashes or underscores")
	must(l.Concurrency >= 0 && l.Concurrency <= MaxConcurrency, "concurrency %d: it must be between 1 and %d; leave it out for any number", l.Concurrency, MaxConcurrency)
	must(l.Concurrency != 0 || !l.Rate.None(), "it limits nothing; give it a Concurrency or a Rate")
	if rate := l.Rate; !rate.None() {
		most := MaxLeaky
		if rate.kind == lua.RateWindow {
			most = MaxWindow
		}
		must(rate.starts >= 1 && rate.starts <= most, "a %s of %d starts: it must be between 1 and %d", rate.kind, rate.starts, most)
		must(rate.per >= time.Millisecond && rate.per <= MaxPer && rate.per%time.Millisecond == 0,
			"a %s of %v: it must be whole milliseconds, at least 1 and at most %v", rate.kind, rate.per, MaxPer)
	}
	return errors.Join(errs...)
}

// Size returns how much the limit allows, as scripts need it.
func (l Limit) Size() lua.Size {
	return lua.Size{Concurrency: l.Concurrency, Rate: l.Rate.kind, N: l.Rate.starts, Per: l.Rate.per}
}

// Gate returns the gate that jobs of the limit with this key share. A key longer than MaxKey, one that is not
// valid UTF-8 and one with control characters is replaced by 32 hexadecimal digits of its SHA-256.
func (l Limit) Gate(key string) lua.Gate {
	return lua.Gate{Name: l.Name + ":" + stored(key), Size: l.Size()}
}

func stored(key string) string {
	if len(key) <= MaxKey && utf8.ValidString(key) {
		plain := true
		for _, r := range key {
			plain = plain && !unicode.IsControl(r)
		}
		if plain {
			return key
		}
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}
