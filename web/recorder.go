package web

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/belayq/belay/inspect"
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
	r.samples = append(r.samples, sampleOf(s))
}

// sampleOf returns a sample with the largest queues, and of equally large ones the slowest.
func sampleOf(s inspect.Status) inspect.Sample {
	taken := inspect.Sample{At: s.At, Processed: s.Processed, Failed: s.Failed}
	for _, queue := range s.Queues {
		taken.Queues = append(taken.Queues, inspect.QueueSample{Name: queue.Name, Size: queue.Size, Latency: queue.Latency})
	}
	slices.SortFunc(taken.Queues, func(a, b inspect.QueueSample) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(b.Latency.Duration, a.Latency.Duration), cmp.Compare(a.Name, b.Name))
	})
	taken.Queues = slices.Clone(taken.Queues[:min(len(taken.Queues), 2*maxPlotted)])
	return taken
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
	// Queues are the largest queues, and their lists; null where a queue was not among the largest.
	Queues []plotted `json:"queues"`
	// Days is true if the instants are days in UTC and the values counts.
	Days bool `json:"days,omitempty"`
}

type plotted struct {
	Name    string     `json:"name"`
	Size    []*float64 `json:"size"`
	Latency []*float64 `json:"latency"`
}

// plot returns samples as series. Rates are of the time since the sample before.
func plot(samples []inspect.Sample) series {
	s := series{At: []float64{}, Processed: []*float64{}, Failed: []*float64{}, Queues: []plotted{}}
	names := busiest(samples)
	for _, name := range names {
		s.Queues = append(s.Queues, plotted{Name: plain(cut(60, name))})
	}
	for n, now := range samples {
		s.At = append(s.At, float64(now.At.UnixMilli())/1000)
		var processed, failed *float64
		if n > 0 {
			before := samples[n-1]
			seconds := now.At.Sub(before.At).Seconds()
			processed, failed = rate(now.Processed-before.Processed, seconds), rate(now.Failed-before.Failed, seconds)
		}
		s.Processed, s.Failed = append(s.Processed, processed), append(s.Failed, failed)
		for i, name := range names {
			var size, latency *float64
			if at := slices.IndexFunc(now.Queues, func(q inspect.QueueSample) bool { return q.Name == name }); at >= 0 {
				size, latency = new(float64(now.Queues[at].Size)), new(now.Queues[at].Latency.Seconds())
			}
			s.Queues[i].Size, s.Queues[i].Latency = append(s.Queues[i].Size, size), append(s.Queues[i].Latency, latency)
		}
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

// busiest returns the names of the queues with the largest sizes in the samples, sorted.
func busiest(samples []inspect.Sample) []string {
	most := make(map[string]int64)
	for _, s := range samples {
		for _, queue := range s.Queues {
			most[queue.Name] = max(most[queue.Name], queue.Size+1)
		}
	}
	names := slices.SortedFunc(maps.Keys(most), func(a, b string) int {
		return cmp.Or(cmp.Compare(most[b], most[a]), cmp.Compare(a, b))
	})
	names = names[:min(len(names), maxPlotted)]
	slices.Sort(names)
	return names
}
