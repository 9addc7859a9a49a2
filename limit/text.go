package limit

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/lua"
)

// ParseRate reads a rate as command lines and pages write it: the starts, a slash and a time, such as 100/1m
// for Window(100, time.Minute), and leaky:100/1m for Leaky. Check finds what is wrong with its numbers.
func ParseRate(text string) (Rate, error) {
	starts, leaky := strings.CutPrefix(text, "leaky:")
	number, span, _ := strings.Cut(starts, "/")
	n, err := strconv.Atoi(number)
	per, perErr := time.ParseDuration(span)
	if err != nil || perErr != nil {
		return Rate{}, fmt.Errorf("the rate %.40q: write starts and a time, such as 100/1m or leaky:100/1m", text)
	}
	if leaky {
		return Leaky(n, per), nil
	}
	return Window(n, per), nil
}

// Words describes how much the limit allows.
func (l Limit) Words() string {
	var words []string
	if l.Concurrency > 0 {
		words = append(words, "concurrency "+strconv.Itoa(l.Concurrency))
	}
	if !l.Rate.None() {
		words = append(words, "rate "+l.Rate.String())
	}
	return strings.Join(words, ", ")
}

// RateOf returns the rate of a size.
func RateOf(size lua.Size) Rate {
	if size.Rate == "" || size.Rate == lua.RateNone {
		return Rate{}
	}
	return Rate{kind: size.Rate, starts: size.N, per: size.Per}
}

// String writes the rate as ParseRate reads it; it is empty for none.
func (r Rate) String() string {
	if r.None() {
		return ""
	}
	per := r.per.String()
	if strings.HasSuffix(per, "m0s") {
		per = strings.TrimSuffix(per, "0s")
	}
	if strings.HasSuffix(per, "h0m") {
		per = strings.TrimSuffix(per, "0m")
	}
	text := fmt.Sprintf("%d/%s", r.starts, per)
	if r.kind == lua.RateLeaky {
		return "leaky:" + text
	}
	return text
}
