package lua

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

var sampleScript = load("sample")

const (
	// SampleEvery is how often the poller adds a Sample: often enough for a plot of a day, and rare enough that
	// a day of samples stays below half a megabyte with ordinary names. MaxSampled queues whose names are as
	// long as possible need some five megabytes.
	SampleEvery = time.Minute
	// KeepSamples is how long the samples are kept.
	KeepSamples = 24 * time.Hour
	// MaxSampled is how many queues a sample has at most: the largest.
	MaxSampled = 12
)

// Samples is the sorted set of the Samples of the last day, by the second at which they were taken.
func (k Keys) Samples() string { return k.prefix + "belay:samples" }

// A Sample is what Redis held at one moment.
type Sample struct {
	At time.Time
	// Processed and Failed are the counters of runs since Redis was set up.
	Processed, Failed int64
	// Queues are the largest queues, at most MaxSampled, and of equally large ones those first by name.
	Queues []QueueSample
}

// A QueueSample is one queue at the time of a Sample. Latency is how long its oldest job had been waiting.
type QueueSample struct {
	Name    string
	Size    int64
	Latency time.Duration
}

// MarshalJSON writes the queue as an array, because a day has more than ten thousand of them.
func (q QueueSample) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{q.Name, q.Size, json.Number(strconv.FormatFloat(q.Latency.Seconds(), 'f', -1, 64))})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (q *QueueSample) UnmarshalJSON(text []byte) error {
	var seconds float64
	if err := json.Unmarshal(text, &[]any{&q.Name, &q.Size, &seconds}); err != nil {
		return fmt.Errorf("read the sample of a queue: %w", err)
	}
	q.Latency = time.Duration(seconds * float64(time.Second))
	return nil
}

// stored is a Sample without its time, as Redis keeps it.
type stored struct {
	Processed int64         `json:"p"`
	Failed    int64         `json:"f"`
	Queues    []QueueSample `json:"q"`
}

// AddSample adds a sample of now, by Redis' clock, and reports whether it did: it does not if the last one is
// younger than half of SampleEvery. The caller keeps within MaxSampled.
func (k Keys) AddSample(s Sample) Ask[bool] {
	var text bytes.Buffer
	write := json.NewEncoder(&text)
	write.SetEscapeHTML(false)
	_ = write.Encode(stored{s.Processed, s.Failed, s.Queues}) // of plain fields
	return asking(sampleScript, []string{k.Samples()}, []string{
		strings.TrimSpace(text.String()), wholeSeconds(SampleEvery / 2), strconv.Itoa(int(KeepSamples / SampleEvery)), wholeSeconds(KeepSamples),
	}, wordIs("added"))
}

// SampleOf reads an entry of Samples; ok is false for one that another program has written.
func SampleOf(entry Entry) (s Sample, ok bool) {
	at, text, _ := strings.Cut(entry.Bytes, " ")
	seconds, err := strconv.ParseFloat(at, 64)
	var read stored
	if err != nil || json.Unmarshal([]byte(text), &read) != nil || len(read.Queues) > MaxSampled {
		return s, false
	}
	return Sample{time.UnixMicro(int64(seconds * 1e6)).UTC(), read.Processed, read.Failed, read.Queues}, true
}
