package web

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/belayq/belay/inspect"
)

// A recorder keeps what the plots show: Redis keeps no history of sizes and latencies, and of rates only one by
// class. It is guarded by the Dashboard's mutex.
type recorder struct {
	recent ring // every status, for a quarter of an hour
	hours  ring // one a minute, for a day
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
	samples []sample
}

type sample struct {
	at                time.Time
	processed, failed int64
	queues            []queueSample // the largest, and of equally large ones the slowest
}

type queueSample struct {
	name    string
	size    int64
	latency time.Duration
}

func (r *recorder) add(s inspect.Status) {
	r.recent.every, r.recent.most = recentEvery, recentMost
	r.hours.every, r.hours.most = hoursEvery, hoursMost
	r.recent.add(s)
	r.hours.add(s)
}

func (r *ring) add(s inspect.Status) {
	// A tenth less than the interval: readings come a little early or late.
	if n := len(r.samples); n > 0 && s.At.Sub(r.samples[n-1].at) < r.every*9/10 {
		return
	}
	if len(r.samples) == r.most {
		r.samples = slices.Delete(r.samples, 0, 1)
	}
	r.samples = append(r.samples, sampleOf(s))
}

func sampleOf(s inspect.Status) sample {
	taken := sample{at: s.At, processed: s.Processed, failed: s.Failed}
	for _, queue := range s.Queues {
		taken.queues = append(taken.queues, queueSample{queue.Name, queue.Size, queue.Latency.Duration})
	}
	slices.SortFunc(taken.queues, func(a, b queueSample) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(b.latency, a.latency), cmp.Compare(a.name, b.name))
	})
	taken.queues = slices.Clone(taken.queues[:min(len(taken.queues), 2*maxPlotted)])
	return taken
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

// plot returns the ring as series. Rates are of the time since the sample before.
func (r *ring) plot() series {
	s := series{At: []float64{}, Processed: []*float64{}, Failed: []*float64{}, Queues: []plotted{}}
	names := r.busiest()
	for _, name := range names {
		s.Queues = append(s.Queues, plotted{Name: plain(cut(60, name))})
	}
	for n, now := range r.samples {
		s.At = append(s.At, float64(now.at.UnixMilli())/1000)
		var processed, failed *float64
		if n > 0 {
			before := r.samples[n-1]
			seconds := now.at.Sub(before.at).Seconds()
			processed, failed = rate(now.processed-before.processed, seconds), rate(now.failed-before.failed, seconds)
		}
		s.Processed, s.Failed = append(s.Processed, processed), append(s.Failed, failed)
		for i, name := range names {
			var size, latency *float64
			if at := slices.IndexFunc(now.queues, func(q queueSample) bool { return q.name == name }); at >= 0 {
				size, latency = new(float64(now.queues[at].size)), new(now.queues[at].latency.Seconds())
			}
			s.Queues[i].Size, s.Queues[i].Latency = append(s.Queues[i].Size, size), append(s.Queues[i].Latency, latency)
		}
	}
	return s
}

// after returns the series with rates of the time before its first sample: those that Redis keeps by class, for
// three days, whatever dashboards run. Sizes and latencies of queues are kept nowhere but here.
func (s series) after(earlier inspect.Classes) series {
	begin := earlier.At
	if len(s.At) > 0 {
		begin = time.UnixMilli(int64(s.At[0] * 1000))
	}
	before := series{}
	for n := 0; len(earlier.Classes) > 0; n++ {
		// A step that has not ended yet would look like an outage.
		end := earlier.From.Add(time.Duration(n+1) * earlier.Step.Duration)
		if end.After(begin) || n >= len(earlier.Classes[0].Steps) {
			break
		}
		var runs, failed int64
		for _, class := range earlier.Classes {
			runs, failed = runs+class.Steps[n].Runs, failed+class.Steps[n].Failed
		}
		before.At = append(before.At, float64(end.UnixMilli())/1000)
		before.Processed = append(before.Processed, rate(runs, earlier.Step.Seconds()))
		before.Failed = append(before.Failed, rate(failed, earlier.Step.Seconds()))
	}
	if len(before.At) == 0 {
		return s
	}
	unknown := make([]*float64, len(before.At))
	s.At, s.Processed, s.Failed = append(before.At, s.At...), append(before.Processed, s.Processed...), append(before.Failed, s.Failed...)
	for n := range s.Queues {
		queue := &s.Queues[n]
		queue.Size, queue.Latency = slices.Concat(unknown, queue.Size), slices.Concat(unknown, queue.Latency)
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

// busiest returns the names of the queues with the largest sizes in the ring, sorted.
func (r *ring) busiest() []string {
	most := make(map[string]int64)
	for _, s := range r.samples {
		for _, queue := range s.queues {
			most[queue.name] = max(most[queue.name], queue.size+1)
		}
	}
	names := slices.SortedFunc(maps.Keys(most), func(a, b string) int {
		return cmp.Or(cmp.Compare(most[b], most[a]), cmp.Compare(a, b))
	})
	names = names[:min(len(names), maxPlotted)]
	slices.Sort(names)
	return names
}
