package scheduler

import (
	"bufio"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A tableLine is a line of testdata/ticks.txt, which testdata/ticks.py computes.
type tableLine struct {
	cron, zone string
	start, end time.Time
	ticks      []time.Time
}

func readTable(t *testing.T) (lines []tableLine) {
	t.Helper()
	file, err := os.Open("testdata/ticks.txt")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	scan := bufio.NewScanner(file)
	scan.Buffer(nil, 1<<20)
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	for scan.Scan() {
		parts := strings.Split(scan.Text(), "|")
		require.Len(t, parts, 5)
		line := tableLine{cron: parts[0], zone: parts[1], start: time.Unix(int64(number(parts[2])), 0)}
		line.end = line.start.Add(time.Duration(number(parts[3])) * 24 * time.Hour)
		at := line.start
		for _, run := range strings.Fields(parts[4]) {
			minutes, times, many := strings.Cut(run, "x")
			count := 1
			if many {
				count = number(times)
			}
			for range count {
				at = at.Add(time.Duration(number(minutes)) * time.Minute)
				line.ticks = append(line.ticks, at)
			}
		}
		lines = append(lines, line)
	}
	require.NoError(t, scan.Err())
	return lines
}

func seconds(ticks []time.Time) []int64 {
	all := make([]int64, len(ticks))
	for i, tick := range ticks {
		all[i] = tick.Unix()
	}
	return all
}

// A month and more of ticks of two hundred definitions in six zones, across both changes of their clocks,
// fired at their times: they are those that another program computes by brute force.
func TestTicksAreThoseOfAnIndependentTable(t *testing.T) {
	t.Parallel()
	definitions, all := make(map[string]int), 0
	for _, line := range readTable(t) {
		definitions[line.cron+line.zone]++
		periodic := &Periodic{Name: "n", Cron: line.cron, Zone: line.zone, CatchUp: CatchUpAll, Job: job.Draft{Class: "C", Queue: "q"}.Encode()}
		require.NoError(t, periodic.Check())
		var fired []time.Time
		last := LastTick{At: line.start}
		for now := line.start; now.Before(line.end); {
			s := periodic.step(last, now, now)
			require.False(t, s.reset)
			if !s.fire.IsZero() {
				require.False(t, now.Before(s.fire), "early")
				fired = append(fired, s.fire)
				// As it is stored: a wall time with its offset.
				var err error
				last, err = ReadLastTick(s.last.Format(time.RFC3339))
				require.NoError(t, err)
			}
			require.True(t, s.next.After(now), "%s %s stands still at %v", line.cron, line.zone, now)
			now = s.next
			if now.Equal(line.end) {
				fired = append(fired, now)
			}
		}
		all += len(line.ticks)
		require.Equal(t, seconds(line.ticks), seconds(fired), "%s in %s from %v", line.cron, line.zone, line.start.UTC())
	}
	require.GreaterOrEqual(t, len(definitions), 190) // a few are written twice, for two of the two hundred
	require.Greater(t, all, 50_000)
}

// The cases in which parsers of cron expressions differ most.
func TestNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, cron, zone, after, want string }{
		{"a skipped time is at the change", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00", "2026-03-29T03:00:00+02:00"},
		{"and once", "*/15 2,3 * * *", "Europe/Berlin", "2026-03-29T03:00:00+02:00", "2026-03-29T03:15:00+02:00"},
		{"a repeated time is the first of two", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00+02:00", "2026-10-25T02:30:00+02:00"},
		{"and once", "30 2 * * *", "Europe/Berlin", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"},
		{"also for one that begins in between", "30 2 * * *", "Europe/Berlin", "2026-10-25T02:10:00+01:00", "2026-10-26T02:30:00+01:00"},
		{"every half hour in both passes", "*/30 * * * *", "Europe/Berlin", "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00"},
		{"a midnight that is skipped", "0 0 * * *", "America/Santiago", "2026-09-05T12:00:00-04:00", "2026-09-06T01:00:00-03:00"},
		{"a gap of half an hour", "0 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30", "2026-10-04T02:30:00+11:00"},
		{"a day that is skipped", "0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"the day of the month or of the week", "0 0 13 * 5", "UTC", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
		{"the last day", "0 0 L * *", "UTC", "2026-02-01T00:00:00Z", "2026-02-28T00:00:00Z"},
		{"a week's end", "0 0 * * FRI-SUN", "UTC", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"},
		{"sunday as 7", "0 0 * * 7", "UTC", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},
		{"a descriptor", "@daily", "Europe/Berlin", "2026-01-01T12:00:00+01:00", "2026-01-02T00:00:00+01:00"},
		{"every hour by its name", "@hourly", "Europe/Berlin", "2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"},
		{"an interval counts from 1970", "@every 7s", "", "1970-01-01T00:00:00Z", "1970-01-01T00:00:07Z"},
		{"an interval after an instant between", "@every 90m", "", "2026-01-01T00:00:00.5Z", "2026-01-01T01:30:00Z"},
		{"the other rules of another program", "0 3 * * *", "Europe/Berlin", "2026-06-01T03:00:00+03:00", "2026-06-02T03:00:00+02:00"},
	} {
		schedule, err := ParseSchedule(c.cron, c.zone)
		require.NoError(t, err, c.name)
		after, err := time.Parse(time.RFC3339, c.after)
		require.NoError(t, err)
		if c.zone != "" && c.name != "the other rules of another program" {
			after = after.In(schedule.zone)
		}
		require.Equal(t, c.want, schedule.Next(after).Format(time.RFC3339), c.name)
	}
}

// Package time answers a change of the zone that has passed on the last day of a leap year, where the table of
// the zone has ended and its rule counts: in 2028 already where the zone database is a compact one.
func TestTheLastDayOfALeapYearEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cron, zone, after, next string }{
		{"*/30 * * * *", "Europe/Berlin", "2040-12-31T02:17:24+01:00", "2040-12-31T02:30:00+01:00"},
		{"5 * 1 1 *", "Europe/Berlin", "2040-12-30T12:00:00+01:00", "2041-01-01T00:05:00+01:00"},
		{"0 * 29 2 *", "America/New_York", "2040-12-31T12:00:00-05:00", "2044-02-29T00:00:00-05:00"},
		{"15 * * * *", "Australia/Lord_Howe", "2040-12-31T12:17:00+11:00", "2040-12-31T13:15:00+11:00"},
		{"15 * * * *", "Europe/Berlin", "2040-12-31T23:20:00+01:00", "2041-01-01T00:15:00+01:00"},
	} {
		t.Run(c.cron+" "+c.zone, func(t *testing.T) {
			t.Parallel()
			schedule, err := ParseSchedule(c.cron, c.zone)
			require.NoError(t, err)
			after, err := time.Parse(time.RFC3339, c.after)
			require.NoError(t, err)
			next := make(chan string, 1)
			go func() { next <- schedule.Next(after).Format(time.RFC3339) }()
			select {
			case got := <-next:
				require.Equal(t, c.next, got)
			case <-time.After(10 * time.Second):
				require.Fail(t, "there is no end to the search for the next tick")
			}
		})
	}
}

func TestSchedulesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cron, zone, says string }{
		{"", "", "five|minute"},
		{"* * * *", "", "minute, hour"},
		{"0 0 * * * *", "", "minute, hour"}, // with seconds
		{"61 * * * *", "", "61"},
		{"1-0 * * * *", "", "range 1-0 runs backwards"},
		{"0 22-2/2 * * *", "", "range 22-2 runs backwards"},
		{"0 0 * NOV-feb *", "", "range NOV-feb runs backwards"},
		{"0 0 * * sat-mon", "", "range sat-mon runs backwards"},
		{"0 0 30 2 *", "", "no such day"},
		{"CRON_TZ=UTC 0 0 * * *", "", "option of its own"},
		{"TZ=UTC", "", "option of its own"},
		{"@every 1.5s", "", "whole seconds"},
		{"@every 0s", "", "whole seconds"},
		{"@every -1h", "", "whole seconds"},
		{"@every", "", "whole seconds"},
		{"@reboot", "", "reboot"},
		{"0 0 * * *", "Europe/Berlim", "Berlim"},
		{"0 0 * * *", "Local", "differs between machines"},
	} {
		_, err := ParseSchedule(c.cron, c.zone)
		require.Error(t, err, c.cron)
		require.Regexp(t, c.says, err.Error())
	}
}

func TestWhatIsCaughtUpWith(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		instant, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return instant
	}
	noon := "2026-05-10T12:00:00Z"
	for _, c := range []struct {
		name, cron               string
		catchUp                  CatchUp
		last, now                string
		fire, newLast, next      string
		reset, passed, sinceOnly bool
	}{
		{name: "nothing is due", cron: "0 * * * *", last: noon, now: "2026-05-10T12:59:59Z", next: "2026-05-10T13:00:00Z"},
		{name: "one is due", cron: "0 * * * *", last: noon, now: "2026-05-10T13:00:00Z", fire: "2026-05-10T13:00:00Z", newLast: "2026-05-10T13:00:00Z", next: "2026-05-10T14:00:00Z"},
		{name: "once fires the last", cron: "0 * * * *", last: noon, now: "2026-05-12T13:30:00Z", fire: "2026-05-12T13:00:00Z", newLast: "2026-05-12T13:00:00Z", next: "2026-05-12T14:00:00Z", passed: true},
		{name: "skip fires none", cron: "0 * * * *", catchUp: CatchUpSkip, last: noon, now: "2026-05-12T13:30:00Z", newLast: "2026-05-12T13:00:00Z", next: "2026-05-12T14:00:00Z", passed: true},
		{name: "skip fires one that is a little late", cron: "0 * * * *", catchUp: CatchUpSkip, last: noon, now: "2026-05-12T13:01:00Z", fire: "2026-05-12T13:00:00Z", newLast: "2026-05-12T13:00:00Z", next: "2026-05-12T14:00:00Z", passed: true},
		{name: "all fires the first", cron: "0 * * * *", catchUp: CatchUpAll, last: noon, now: "2026-05-12T13:30:00Z", fire: "2026-05-10T13:00:00Z", newLast: "2026-05-10T13:00:00Z", next: "2026-05-10T14:00:00Z"},
		{name: "all fires the last thousand", cron: "@every 1s", catchUp: CatchUpAll, last: noon, now: "2026-05-12T12:00:00Z", fire: "2026-05-12T11:43:21Z", newLast: "2026-05-12T11:43:21Z", next: "2026-05-12T11:43:22Z", passed: true},
		{name: "once after a year of seconds", cron: "@every 1s", last: noon, now: "2027-05-10T12:00:00Z", fire: "2027-05-10T12:00:00Z", newLast: "2027-05-10T12:00:00Z", next: "2027-05-10T12:00:01Z", passed: true},
		{name: "a last tick ahead of the next one is reset", cron: "0 * * * *", last: "2026-05-10T15:00:00Z", now: noon, reset: true},
		{name: "the next tick has been already", cron: "0 * * * *", last: "2026-05-10T13:00:00Z", now: noon, next: "2026-05-10T14:00:00Z"},
		{name: "a beginning that lies ahead is reset", cron: "0 * * * *", last: "2026-05-10T12:00:01Z", sinceOnly: true, now: noon, reset: true},
	} {
		periodic := &Periodic{Name: "n", Cron: c.cron, CatchUp: c.catchUp, Job: job.Draft{Class: "C", Queue: "q"}.Encode()}
		require.NoError(t, periodic.Check(), c.name)
		text := func(at time.Time) string {
			if at.IsZero() {
				return ""
			}
			return at.UTC().Format(time.RFC3339)
		}
		s := periodic.step(LastTick{At: at(c.last), Ticked: !c.sinceOnly}, at(c.now), at(c.now))
		require.Equal(t, []any{c.fire, c.newLast, c.next, c.reset, c.passed}, []any{text(s.fire), text(s.last), text(s.next), s.reset, s.passed}, c.name)
	}
}

// A jitter may be much longer than the interval: each tick fires, in order, before the next one.
func TestALongJitterLosesNoTick(t *testing.T) {
	t.Parallel()
	periodic := &Periodic{Name: "n", Cron: "@every 7s", Jitter: time.Hour, Job: job.Draft{Class: "C", Queue: "q"}.Encode()}
	require.NoError(t, periodic.Check())
	begun := time.Unix(7_000_000, 0).UTC()
	last, fired := LastTick{At: begun, Ticked: true}, 0
	for now := begun; now.Before(begun.Add(time.Hour)); now = now.Add(100 * time.Millisecond) {
		s := periodic.step(last, now, begun)
		if s.fire.IsZero() {
			continue
		}
		fired++
		require.Equal(t, begun.Add(time.Duration(fired)*7*time.Second), s.fire.UTC())
		require.Less(t, now.Sub(s.fire), 7*time.Second+100*time.Millisecond)
		last = LastTick{At: s.fire, Ticked: true}
	}
	require.InDelta(t, 3600/7, fired, 1)
}

func TestJitterIsTheSameEverywhereAndNeverEarly(t *testing.T) {
	t.Parallel()
	jitter := 10 * time.Minute
	periodic := &Periodic{Name: "n", Cron: "0 * * * *", Jitter: jitter, Job: job.Draft{Class: "C", Queue: "q"}.Encode()}
	require.NoError(t, periodic.Check())
	again, err := ReadPeriodic(periodic.Definition())
	require.NoError(t, err)
	at, low, high := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 0, 0
	for range 1000 {
		at = at.Add(time.Hour)
		due := periodic.dueAt(at)
		require.Equal(t, due, again.dueAt(at))
		require.False(t, due.Before(at))
		require.True(t, due.Before(at.Add(jitter)))
		if due.Sub(at) < jitter/4 {
			low++
		} else if due.Sub(at) > 3*jitter/4 {
			high++
		}
		require.Equal(t, due, periodic.step(LastTick{At: at.Add(-time.Hour), Ticked: true}, at.Add(-time.Minute), at.Add(-time.Minute)).next)
	}
	require.InDelta(t, 250, low, 60)
	require.InDelta(t, 250, high, 60)
}

// Ruby's reschedule finds a job by the text that it would write, and adds a second copy if it does not.
func TestTheJobsOfTicksAreSpelledAsRubySpellsThem(t *testing.T) {
	t.Parallel()
	const name, args = "sales & marketing \u2028", "[\"a<b & c>d\u2028\u2029\",1.0e-07,1e400]"
	periodic := func(args string) *Periodic {
		p := &Periodic{Name: name, Cron: "@daily", Job: job.Draft{Class: "C<D>", Queue: "q", JID: "j", ArgsJSON: args, Extra: []job.Edit{job.SetString("tag", "<&>")}}.Encode()}
		require.NoError(t, p.Check())
		return p
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	spelled := strings.Replace(args, ",1e400", "", 1)
	own := periodic(spelled)
	definition := own.Definition()
	old := definition // as earlier versions stored it
	text, err := json.Marshal(stored{own.Cron, own.Zone, own.CatchUp, 0, own.Overlap, json.RawMessage(own.Job)})
	require.NoError(t, err)
	old.Text, old.Digest = string(text), digestOf(string(text))
	require.NotEqual(t, definition.Text, old.Text)
	require.Equal(t, definition.Schedule, old.Schedule, "another digest of the schedule would move ticks")
	for _, d := range []lua.Definition{definition, old} {
		read, err := ReadPeriodic(d)
		require.NoError(t, err)
		require.Equal(t, d.Digest, read.digest, "the scripts compare it with the stored one")
		require.Equal(t, own.Job, read.Job)
		for unit, float := range map[job.TimeUnit]string{job.Seconds: "1.0e-07", job.Millis: "0.0000001"} {
			tick, err := read.TickJob(now, now, unit)
			require.NoError(t, err)
			require.Contains(t, tick.Bytes, strings.Replace(spelled, "1.0e-07", float, 1))
			require.Contains(t, tick.Bytes, `"belay_tick":{"name":"`+name+`",`)
			if unit == job.Seconds {
				again, err := job.Marshal(json.RawMessage(tick.Bytes))
				require.NoError(t, err)
				require.Equal(t, again, tick.Bytes)
			}
		}
	}
	t.Run("if they can be spelled", func(t *testing.T) {
		t.Parallel()
		read, err := ReadPeriodic(periodic(args).Definition())
		require.NoError(t, err)
		require.Equal(t, args, read.ArgsJSON())
	})
	t.Run("and other definitions keep their digests", func(t *testing.T) {
		t.Parallel()
		p := &Periodic{Name: "n", Cron: "@daily", Job: `{"class":"C","args":["é",1.50],"jid":"j"}`}
		require.NoError(t, p.Check())
		text, err := json.Marshal(stored{p.Cron, p.Zone, p.CatchUp, 0, p.Overlap, json.RawMessage(p.Job)})
		require.NoError(t, err)
		require.Equal(t, lua.Definition{Name: "n", Digest: digestOf(string(text)), Schedule: p.Definition().Schedule, Text: string(text)}, p.Definition())
	})
}
