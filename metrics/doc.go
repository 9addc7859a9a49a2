// Package metrics exposes a worker and its fleet to Prometheus.
//
// Register a Collector in the registry of the program. It has the counters of a Server of this process, and
// figures that it reads from Redis when it is scraped: sizes and latencies of queues, sizes of sets,
// processes. A scrape reads a bounded number of queues, never reads the jobs in them, and gives up after a
// second, so its load on Redis is small.
//
// It must never change anything in Redis, and never use a text that a producer chooses as a label without a
// bound on the number of values.
package metrics
