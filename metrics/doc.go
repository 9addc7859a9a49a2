// Package metrics exposes a worker and its fleet to Prometheus.
//
// A Collector goes into the registry of the program. It has the counters of a Server of this process, and
// figures that it reads from Redis when it is scraped: sizes and latencies of queues, sizes of sets, processes.
// A scrape reads a bounded number of queues, counts no backlog by walking it, and gives up after a second, so
// that monitoring is no load.
//
// It must never change anything in Redis, and never make a label out of what a producer may choose freely
// without a bound.
package metrics
