// Package slowlink is a TCP proxy that is as slow as a real network link: it adds latency and limits
// bandwidth. It exists because deadlines, page sizes and retries that work on loopback may never succeed on
// a slow link.
//
// It works on bytes and does not parse them. Latency does not limit throughput: bytes arrive one delay
// after they were sent, however many others are on their way. Bandwidth is limited per direction, and all
// connections of a link share it.
//
// It does not model what TCP adds: a connection opens at once, no packet is lost, and windows do not grow
// slowly.
package slowlink
