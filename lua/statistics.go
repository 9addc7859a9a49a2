package lua

import (
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
)

// The statistics of classes are Sidekiq's execution metrics, in the keys of Sidekiq 8.0 and later, so that
// the Metrics tab of its Web UI shows the runs of Go workers too, and Belay's readers those of Ruby workers.
// Sidekiq 7 has other names for the same (a year of four digits, an unpadded minute, histograms without
// "h|") and no buckets of ten minutes; the two versions do not read each other's. Sidekiq 6.4 has no such tab.
// To write both forms would double the cost for a version that gets no more releases.

var statisticsScript = load("statistics")

const (
	// MaxFigures is how many classes one call of AddFigures may have: each has six fields and two histograms.
	MaxFigures = 16
	// KeepMinutes is how long Redis keeps the figures and histograms of a minute; Sidekiq's value.
	KeepMinutes = 8 * time.Hour
	// KeepTens is how long Redis keeps the figures of ten minutes; Sidekiq's value.
	KeepTens = 3 * 24 * time.Hour
	// maxInBucket is the most that a bucket of Sidekiq's histograms counts in a minute: 16 bits, which
	// saturate.
	maxInBucket = 1<<16 - 1
)

// HistogramBounds are the upper bounds of a histogram's buckets, exclusive. One more bucket counts what is
// longer.
var HistogramBounds = [...]time.Duration{
	20 * time.Millisecond, 30 * time.Millisecond, 45 * time.Millisecond, 65 * time.Millisecond, 100 * time.Millisecond,
	150 * time.Millisecond, 225 * time.Millisecond, 335 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond,
	1100 * time.Millisecond, 1700 * time.Millisecond, 2500 * time.Millisecond, 3800 * time.Millisecond, 5750 * time.Millisecond,
	8500 * time.Millisecond, 13 * time.Second, 20 * time.Second, 30 * time.Second, 45 * time.Second,
	65 * time.Second, 100 * time.Second, 150 * time.Second, 225 * time.Second, 335 * time.Second,
}

// A Histogram counts durations by bucket: see HistogramBounds.
type Histogram [len(HistogramBounds) + 1]uint64

// Count returns how many durations it counts.
func (h *Histogram) Count() (count uint64) {
	for _, n := range h {
		count += n
	}
	return count
}

// A counterType is the type of a histogram's counters in Redis.
type counterType string

const (
	runCounter  counterType = "u16" // Sidekiq's
	waitCounter counterType = "u32"
)

// ClassMinute is the hash of a UTC minute's figures: fields "Class|p" (runs), "Class|f" (failed runs) and
// "Class|ms" (the time of successful runs).
func (k Keys) ClassMinute(at time.Time) string { return k.prefix + "j|" + minuteOf(at) }

// ClassTen is ClassMinute for ten minutes: its name is that of a minute without the last digit.
func (k Keys) ClassTen(at time.Time) string {
	minute := minuteOf(at)
	return k.prefix + "j|" + minute[:len(minute)-1]
}

// minuteOf names a minute: 250214|8:43. The hour has no leading zero.
func minuteOf(at time.Time) string {
	at = at.UTC()
	return at.Format("060102|") + strconv.Itoa(at.Hour()) + at.Format(":04")
}

// RunHistogram is the histogram of how long a class' successful runs took in a UTC minute.
func (k Keys) RunHistogram(class string, at time.Time) string {
	return k.prefix + "h|" + class + "-" + dayMinuteOf(at)
}

// WaitHistogram is the histogram of how long a class' jobs had waited in their queue when their runs began. It
// is Belay's own: Sidekiq does not measure it.
func (k Keys) WaitHistogram(class string, at time.Time) string {
	return k.prefix + "belay:waits|" + class + "-" + dayMinuteOf(at)
}

// dayMinuteOf names a minute of a month: 14-8:43, and 14-8:5. Nothing has a leading zero, unlike in minuteOf.
func dayMinuteOf(at time.Time) string {
	at = at.UTC()
	return strconv.Itoa(at.Day()) + "-" + strconv.Itoa(at.Hour()) + ":" + strconv.Itoa(at.Minute())
}

// ClassFigures has the counts of a process for one class.
type ClassFigures struct {
	Class string
	// Processed counts runs, and Failed those of them that failed.
	Processed, Failed uint64
	// Time is how long successful runs took together, and Runs how long each. Waits is how long the jobs of
	// all runs had waited.
	Time        time.Duration
	Runs, Waits Histogram
}

// The fields of a class in the hash of its minute, after the class' name.
const (
	FieldProcessed = "|p"
	FieldFailed    = "|f"
	FieldTime      = "|ms"
)

// AddFigures adds what a process has counted of some classes to the figures of the minute of at. After
// an error some of it may have been added, and a repeat counts twice. The caller keeps within MaxFigures.
func (k Keys) AddFigures(figures []ClassFigures, at time.Time) driver.Call {
	keys := []string{k.ClassMinute(at), k.ClassTen(at)}
	var fields, counters []string
	for i := range figures {
		f := &figures[i]
		for _, field := range []struct {
			name  string
			count uint64
		}{{FieldProcessed, f.Processed}, {FieldFailed, f.Failed}, {FieldTime, uint64(f.Time.Milliseconds())}} {
			if field.count > 0 {
				fields = append(fields, f.Class+field.name, strconv.FormatUint(field.count, 10))
			}
		}
		if f.Runs.Count() > 0 {
			keys, counters = append(keys, k.RunHistogram(f.Class, at)), f.Runs.appendTo(counters, runCounter)
		}
		if f.Waits.Count() > 0 {
			keys, counters = append(keys, k.WaitHistogram(f.Class, at)), f.Waits.appendTo(counters, waitCounter)
		}
	}
	args := []string{wholeSeconds(KeepMinutes), "2", wholeSeconds(KeepMinutes), wholeSeconds(KeepTens), strconv.Itoa(len(fields) / 2)}
	return driver.Call{Script: statisticsScript, Keys: keys, Args: slices.Concat(args, fields, counters)}
}

// QueueFigures has the counts of a process for one queue.
type QueueFigures struct {
	Queue string
	// Processed counts runs of jobs that were taken from it, and Failed those of them that failed.
	Processed, Failed uint64
}

// QueueMinute is the hash of a UTC minute's figures of queues: fields "queue|p" and "queue|f". It is Belay's
// own: Sidekiq counts by class alone.
func (k Keys) QueueMinute(at time.Time) string { return k.prefix + "belay:queues|" + minuteOf(at) }

// keepQueueMinutes is how long Redis keeps the figures of a QueueMinute: the rates are those of the current
// minute and the one before, as each process counts minutes by its own estimate of Redis' clock.
const keepQueueMinutes = 10 * time.Minute

// AddQueueFigures is AddFigures for queues.
func (k Keys) AddQueueFigures(figures []QueueFigures, at time.Time) driver.Call {
	args := []string{"0", "1", wholeSeconds(keepQueueMinutes), ""}
	begin := len(args)
	for _, f := range figures {
		args = append(args, f.Queue+FieldProcessed, strconv.FormatUint(f.Processed, 10))
		if f.Failed > 0 {
			args = append(args, f.Queue+FieldFailed, strconv.FormatUint(f.Failed, 10))
		}
	}
	args[begin-1] = strconv.Itoa((len(args) - begin) / 2)
	return driver.Call{Script: statisticsScript, Keys: []string{k.QueueMinute(at)}, Args: args}
}

// ReadQueueFigures returns the calls that read how much of the figures of some queues falls into the minute of
// at, and into the one before it. The reply to each has, of each queue, the count of runs and of failed runs.
func (k Keys) ReadQueueFigures(queues []string, at time.Time) []driver.Call {
	fields := make([]string, 0, 2*len(queues))
	for _, queue := range queues {
		fields = append(fields, queue+FieldProcessed, queue+FieldFailed)
	}
	read := func(minute time.Time) driver.Call {
		return driver.Command(append([]string{"HMGET", k.QueueMinute(minute)}, fields...)...)
	}
	return []driver.Call{read(at), read(at.Add(-time.Minute))}
}

// appendTo adds the arguments of a histogram.
func (h *Histogram) appendTo(args []string, kind counterType) []string {
	args = append(args, string(kind), "")
	begin := len(args)
	for i, n := range h {
		if n > 0 {
			args = append(args, strconv.Itoa(i), strconv.FormatUint(n, 10))
		}
	}
	args[begin-1] = strconv.Itoa((len(args) - begin) / 2)
	return args
}

// ReadHistograms returns the calls that read a class' two histograms of a minute, for RunsOf and
// WaitsOf.
func (k Keys) ReadHistograms(class string, at time.Time) []driver.Call {
	return []driver.Call{driver.Command("GET", k.RunHistogram(class, at)), driver.Command("GET", k.WaitHistogram(class, at))}
}

// RunsOf reads a histogram of runs. Its counters saturate, so it may have fewer runs than there were: RunsOf
// adds the difference to runs to the bucket that is full.
func RunsOf(text string, runs uint64) Histogram {
	h := histogramOf(text, 2)
	// If several buckets are full, the first one is used: most runs are short.
	if full, count := slices.Index(h[:], maxInBucket), h.Count(); full >= 0 && count < runs {
		h[full] += runs - count
	}
	return h
}

// WaitsOf reads a histogram of waits.
func WaitsOf(text string) Histogram { return histogramOf(text, 4) }

// histogramOf reads counters of width bytes each, the highest byte first. A bitfield ends after the last
// counter that was written.
func histogramOf(text string, width int) (h Histogram) {
	for i := range min(len(h), len(text)/width) {
		for _, digit := range []byte(text[i*width : (i+1)*width]) {
			h[i] = h[i]<<8 | uint64(digit)
		}
	}
	return h
}
