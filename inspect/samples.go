package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/belayq/belay/lua"
)

// A Sample is what a keyspace held at one moment. The poller of the fleet takes one a minute, and Redis keeps
// those of a day.
type Sample struct {
	// At is when it was taken, by Redis' clock.
	At time.Time `json:"at"`
	// Processed and Failed are those of Status at that time.
	Processed int64 `json:"processed"`
	Failed    int64 `json:"failed"`
	// Queues are the largest queues, at most 12, the largest first.
	Queues []QueueSample `json:"queues"`
}

// A QueueSample is one queue at the time of a Sample; see Queue.
type QueueSample struct {
	Name    string  `json:"name"`
	Size    int64   `json:"size"`
	Latency Seconds `json:"latency_seconds"`
}

// Samples returns the samples since an instant, the oldest first; those of the last day, if the fleet had a
// process of Belay all the time.
func (i *Inspector) Samples(ctx context.Context, since time.Time) ([]Sample, error) {
	samples := []Sample{}
	from := fmt.Sprintf("%d", max(since.Unix(), 0))
	err := i.walk(ctx, i.keys.Samples(), lua.Cursor{From: from, To: "+inf"}, func(page []lua.Entry) bool {
		for _, entry := range page {
			if read, ok := lua.SampleOf(entry); ok {
				samples = append(samples, sampleOf(read))
			}
		}
		return false
	})
	if err != nil {
		return nil, fmt.Errorf("read the samples of the queues: %w", err)
	}
	return samples, nil
}

func sampleOf(read lua.Sample) Sample {
	s := Sample{At: read.At, Processed: read.Processed, Failed: read.Failed, Queues: make([]QueueSample, len(read.Queues))}
	for n, queue := range read.Queues {
		s.Queues[n] = QueueSample{queue.Name, queue.Size, Seconds{queue.Latency}}
	}
	return s
}
