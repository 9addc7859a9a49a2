package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a container without a zone database must fire the same ticks as one that has it

	cron "github.com/netresearch/go-cron"
)

// A Schedule defines when a periodic job is due. It never changes, and may be used from any goroutine.
//
// A schedule that names hours follows the wall clock of its zone: a tick whose local time is skipped, because
// clocks are set forward, is due at the instant at which they are set, and one whose local time comes twice
// is due the first time. Ticks that fall on one instant are one. A schedule for every hour ("*/30 * * * *")
// follows real time, so that it is due in both passes of a repeated hour and in none that is skipped.
// "@every" counts from 1970, so that all processes agree, and a new definition of the same interval changes
// nothing.
type Schedule struct {
	every time.Duration // 0 for an expression
	spec  cron.Schedule // of wall times, which it reads as UTC
	wall  bool          // it names hours
	zone  *time.Location
}

// parser reads the expressions of Vixie's cron, and L and #. If both the day of the month and the day of the
// week are given, a day is due that fits either, as in cron.
var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom |
	cron.DowNth | cron.DowLast | cron.DomL | cron.DomW)

// everyHour is the bit of a field that is "*".
const everyHour = 1 << 63

const everyWord = "@every"

// ParseSchedule reads a cron expression of five fields, a descriptor such as @daily, or "@every 10s", in a
// zone of the IANA database. An empty zone is UTC, not the machine's, which may differ between machines.
func ParseSchedule(expression, zone string) (*Schedule, error) {
	expression = strings.TrimSpace(expression)
	if zone == "Local" {
		return nil, errors.New("zone Local differs between machines; name one, such as Europe/Berlin")
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("zone %q: there is no zone of this name; give one such as Europe/Berlin", zone)
	}
	s := &Schedule{zone: location}
	if text, ok := strings.CutPrefix(expression, everyWord); ok {
		s.every, err = time.ParseDuration(strings.TrimSpace(text))
		if err != nil || s.every < time.Second || s.every%time.Second != 0 {
			return nil, fmt.Errorf("schedule %q: after %s comes a duration of whole seconds, such as 90s or 6h", expression, everyWord)
		}
		return s, nil
	}
	if strings.Contains(expression, "=") {
		return nil, fmt.Errorf("schedule %q: give the zone as an option of its own", expression)
	}
	if err := checkRanges(expression); err != nil {
		return nil, fmt.Errorf("schedule %q: %w", expression, err)
	}
	if s.spec, err = parser.Parse(expression); err != nil {
		return nil, fmt.Errorf("schedule %q: %w; it must be minute, hour, day of the month, month and day of the week, as in \"30 3 * * 1-5\"", expression, err)
	}
	spec, ok := s.spec.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("schedule %q: it is not a time of day", expression)
	}
	spec.Location = time.UTC
	s.wall = spec.Hour&everyHour == 0
	if s.Next(time.Unix(0, 0)).IsZero() {
		return nil, fmt.Errorf("schedule %q: there is no such day", expression)
	}
	return s, nil
}

// checkRanges refuses ranges that run backwards. In cron they are errors; the parser takes them for ranges
// around the end, so that 1-0 would be every minute. A week may end with Sunday, which is 0 and 7.
func checkRanges(expression string) error {
	for at, field := range strings.Fields(expression) {
		for part := range strings.SplitSeq(field, ",") {
			span, _, _ := strings.Cut(part, "/")
			first, last, _ := strings.Cut(span, "-")
			from, to := ordinal(first), ordinal(last)
			if at == weekday && to == 0 {
				to = 7
			}
			if from >= 0 && to >= 0 && from > to {
				return fmt.Errorf("the range %s runs backwards", span)
			}
		}
	}
	return nil
}

// weekday is the position of the day of the week in an expression.
const weekday = 4

var ordinals = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat", "", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep",
	"oct", "nov", "dec"}

// ordinal returns the number of an end of a range, or the position of its name among names; -1 if it is
// neither.
func ordinal(text string) int {
	if number, err := strconv.Atoi(text); err == nil {
		return number
	}
	if text == "" {
		return -1
	}
	return slices.Index(ordinals, strings.ToLower(text))
}

// Next returns the first tick after an instant, in the schedule's zone; the zero time if there is none. It
// reads the local time of after in after's own zone, so that a tick keeps its local time even if two programs
// have different rules for one zone.
func (s *Schedule) Next(after time.Time) time.Time {
	switch {
	case s.every > 0:
		return s.nextInterval(after)
	case s.wall:
		return s.nextWall(after)
	}
	return s.nextReal(after)
}

// nextInterval is Next for @every.
func (s *Schedule) nextInterval(after time.Time) time.Time {
	every := int64(s.every / time.Second)
	return time.Unix((after.Unix()/every+1)*every, 0).In(s.zone)
}

// nextWall is Next for a schedule that names hours.
func (s *Schedule) nextWall(after time.Time) time.Time {
	for wall := asUTC(after); ; {
		if wall = s.spec.Next(wall); wall.IsZero() {
			return wall
		}
		// A local time that comes twice may lie before after. Then the next one is tried.
		if at := s.instant(wall); at.After(after) {
			return at
		}
	}
}

// asUTC returns the wall time of an instant, read as UTC.
func asUTC(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// instant returns the instant of a wall time in the zone: the first one if the wall time comes twice, and the
// end of the gap if it is skipped.
func (s *Schedule) instant(wall time.Time) time.Time {
	// The offset is that of a day before or of a day after, because zones change less often than that.
	const day = 24 * time.Hour
	_, early := wall.Add(-day).In(s.zone).Zone()
	_, late := wall.Add(day).In(s.zone).Zone()
	for _, offset := range []int{max(early, late), min(early, late)} { // the greater one is the earlier instant
		at := wall.Add(-time.Duration(offset) * time.Second).In(s.zone)
		if asUTC(at).Equal(wall) {
			return at
		}
	}
	// The wall time is in a gap: with the offset from before the gap, it lies after the change.
	start, _ := wall.Add(-time.Duration(early) * time.Second).In(s.zone).ZoneBounds()
	return start.In(s.zone)
}

// nextReal is Next for a schedule for every hour. The wall clock runs evenly between two changes of the zone,
// so each such period is searched on its own.
func (s *Schedule) nextReal(after time.Time) time.Time {
	start := after.In(s.zone)
	for from := asUTC(start); ; {
		wall := s.spec.Next(from)
		if wall.IsZero() {
			return wall
		}
		_, offset := start.Zone()
		_, end := start.ZoneBounds()
		if !end.IsZero() && !end.After(start) { // package time returns this on the last day of a leap year
			_, end = start.AddDate(0, 0, 1).ZoneBounds()
		}
		at := wall.Add(-time.Duration(offset) * time.Second).In(s.zone)
		if end.IsZero() || at.Before(end) {
			return at
		}
		// The change itself may be a tick, so the search continues just before it, with the new offset.
		start = end.In(s.zone)
		from = asUTC(start).Add(-1)
	}
}

// last returns the last ticks after an instant and until now, at most limit of them, the earliest first.
func (s *Schedule) last(after, now time.Time, limit int) []time.Time {
	// The period that is searched begins short and grows, so that neither a schedule of years nor one of
	// seconds that did not fire for a year takes long.
	now = now.In(s.zone)
	for stretch := time.Duration(limit) * time.Second; ; stretch *= 2 {
		from := now.Add(-stretch)
		whole := stretch <= 0 || !from.After(after)
		if whole {
			from = after
		}
		var ticks []time.Time
		for at := s.Next(from); !at.IsZero() && !at.After(now); at = s.Next(at) {
			if !s.wall || asUTC(at).After(asUTC(after)) {
				ticks = append(ticks, at)
			}
		}
		if whole || len(ticks) >= limit {
			return ticks[max(0, len(ticks)-limit):]
		}
	}
}
