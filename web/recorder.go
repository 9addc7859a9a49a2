package web

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/lua"
)

// A recorder keeps what this dashboard has seen, for the plots. It is guarded by the Dashboard's mutex.
type recorder struct {
	recent ring // every status, for a quarter of an hour
	// hours has one sample a minute, for a day. It is for a fleet without a worker of Belay, which keeps the
	// samples of a day in Redis: see filled.
	hours ring
}

const (
	recentEvery, recentMost = 2 * time.Second, 450
	hoursEvery, hoursMost   = time.Minute, 1440
	// maxPlotted is how many queues have a line of their own: more colours look alike.
	maxPlotted = 6
)

// A ring keeps the youngest samples.
type ring struct {
	every   time.Duration
	most    int
	samples []inspect.Sample
}

func (r *recorder) add(s inspect.Status) {
	r.recent.every, r.recent.most = recentEvery, recentMost
	r.hours.every, r.hours.most = hoursEvery, hoursMost
	r.recent.add(s)
	r.hours.add(s)
}

func (r *ring) add(s inspect.Status) {
	// A tenth less than the interval: readings come a little early or late.
	if n := len(r.samples); n > 0 && s.At.Sub(r.samples[n-1].At) < r.every*9/10 {
		return
	}
	if len(r.samples) == r.most {
		r.samples = slices.Delete(r.samples, 0, 1)
	}
	r.samples = append(r.samples, sampleOf(s, append(plottedNames(r.samples, sizeOf), plottedNames(r.samples, latencyOf)...)))
}

// sampleOf returns a sample with the largest queues, as those that Redis keeps, and after them the slowest ones
// and those that have a line: a line ends at 0 when its queue is drained, however many others are larger.
func sampleOf(s inspect.Status, lines []string) inspect.Sample {
	all := make([]inspect.QueueSample, len(s.Queues))
	for n, queue := range s.Queues {
		all[n] = inspect.QueueSample{Name: queue.Name, Size: queue.Size, Latency: queue.Latency}
	}
	slices.SortFunc(all, func(a, b inspect.QueueSample) int {
		return cmp.Or(cmp.Compare(b.Latency.Duration, a.Latency.Duration), cmp.Compare(a.Name, b.Name))
	})
	slowest := slices.Clone(all[:min(len(all), lua.MaxSampled)])
	slices.SortStableFunc(all, func(a, b inspect.QueueSample) int { return cmp.Compare(b.Size, a.Size) })
	taken := inspect.Sample{At: s.At, Processed: s.Processed, Failed: s.Failed, Queues: slices.Clone(all[:min(len(all), lua.MaxSampled)])}
	for _, queue := range all[len(taken.Queues):] {
		if slices.Contains(lines, queue.Name) || slices.Contains(slowest, queue) {
			taken.Queues = append(taken.Queues, queue)
		}
	}
	return taken
}

// figures returns the size and the latency of a queue in a sample. known is false if it may have had jobs, but
// fewer than those that the sample has.
func figures(s inspect.Sample, queue string) (figures inspect.QueueSample, known bool) {
	if at := slices.IndexFunc(s.Queues, func(q inspect.QueueSample) bool { return q.Name == queue }); at >= 0 {
		return s.Queues[at], true
	}
	return inspect.QueueSample{Name: queue}, len(s.Queues) < lua.MaxSampled || s.Queues[lua.MaxSampled-1].Size == 0
}

// filled returns the samples that Redis keeps, and where it has none those of this dashboard.
func filled(stored, own []inspect.Sample) []inspect.Sample {
	all := slices.Clone(stored)
	for _, s := range own {
		at, _ := slices.BinarySearchFunc(stored, s.At, func(s inspect.Sample, at time.Time) int { return s.At.Compare(at) })
		if !near(stored, at-1, s.At) && !near(stored, at, s.At) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b inspect.Sample) int { return a.At.Compare(b.At) })
	return all
}

// near reports whether there is such a sample and it stands for the figures of an instant.
func near(samples []inspect.Sample, n int, at time.Time) bool {
	return n >= 0 && n < len(samples) && samples[n].At.Sub(at).Abs() < 2*hoursEvery
}

// A series is what the plots read. All lists have one value an instant.
type series struct {
	// At are instants in seconds since 1970.
	At []float64 `json:"at"`
	// Processed and Failed are runs a second (a day, in the range days); null for the first sample.
	Processed []*float64 `json:"processed"`
	Failed    []*float64 `json:"failed"`
	// Sizes and Latencies are the lines of the largest and of the slowest queues.
	Sizes     []line `json:"sizes"`
	Latencies []line `json:"latencies"`
	// Days is true if the instants are days in UTC and the values counts.
	Days bool `json:"days,omitempty"`
}

// A line is one queue in a plot.
type line struct {
	Name string `json:"name"`
	// Ink is the number of its colour: that of the same queue in the other plot.
	Ink int `json:"ink"`
	// Values are jobs, or seconds; null where the queue was not among the largest, and may have had jobs.
	Values []*float64 `json:"values"`
}

func sizeOf(q inspect.QueueSample) float64 { return float64(q.Size) }

func latencyOf(q inspect.QueueSample) float64 { return q.Latency.Seconds() }

// plot returns samples as series. Rates are of the time since the sample before.
func plot(samples []inspect.Sample) series {
	s := series{At: []float64{}, Processed: []*float64{}, Failed: []*float64{}}
	sizes, latencies := plottedNames(samples, sizeOf), plottedNames(samples, latencyOf)
	inks := inksOf(sizes, latencies)
	s.Sizes, s.Latencies = lines(samples, sizes, inks, sizeOf), lines(samples, latencies, inks, latencyOf)
	for n, now := range samples {
		s.At = append(s.At, float64(now.At.UnixMilli())/1000)
		var processed, failed *float64
		if n > 0 {
			before := samples[n-1]
			seconds := now.At.Sub(before.At).Seconds()
			processed, failed = rate(now.Processed-before.Processed, seconds), rate(now.Failed-before.Failed, seconds)
		}
		s.Processed, s.Failed = append(s.Processed, processed), append(s.Failed, failed)
	}
	return s
}

// rate returns a count per second; nil if the counter was reset.
func rate(count int64, seconds float64) *float64 {
	if count < 0 || seconds <= 0 {
		return nil
	}
	return new(float64(count) / seconds)
}

// lines returns the lines of queues in a plot.
func lines(samples []inspect.Sample, names []string, inks map[string]int, of func(inspect.QueueSample) float64) []line {
	list := make([]line, len(names))
	for n, name := range names {
		list[n] = line{Name: plain(cut(60, name)), Ink: inks[name], Values: make([]*float64, len(samples))}
		for at, sample := range samples {
			if queue, known := figures(sample, name); known {
				list[n].Values[at] = new(of(queue))
			}
		}
	}
	return list
}

// inksOf gives each queue of two plots a colour: one of maxPlotted, and none twice in a plot.
func inksOf(first, second []string) map[string]int {
	inks, free := make(map[string]int), 0
	for n, name := range first {
		inks[name] = n
	}
	for _, name := range second {
		if _, has := inks[name]; has {
			continue
		}
		for free < len(first) && slices.Contains(second, first[free]) {
			free++
		}
		inks[name] = free
		free++
	}
	return inks
}

// plottedNames returns the names of the queues that have a line, sorted: those with the highest figures in the
// last sample, and as many or more with the highest ones of all.
func plottedNames(samples []inspect.Sample, of func(inspect.QueueSample) float64) []string {
	now, highest := make(map[string]float64), make(map[string]float64)
	for n, s := range samples {
		for _, queue := range s.Queues {
			highest[queue.Name] = max(highest[queue.Name], of(queue))
			if n == len(samples)-1 && of(queue) > 0 {
				now[queue.Name] = of(queue)
			}
		}
	}
	names := ranked(now)
	names = names[:min(len(names), maxPlotted/2)]
	for _, name := range ranked(highest) {
		if len(names) < maxPlotted && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ranked returns the names with the highest figures first, and of equal ones those first by name.
func ranked(figures map[string]float64) []string {
	return slices.SortedFunc(maps.Keys(figures), func(a, b string) int {
		return cmp.Or(cmp.Compare(figures[b], figures[a]), cmp.Compare(a, b))
	})
}
