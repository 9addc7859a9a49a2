// Package service connects a worker process with the operating system: signals, health checks, systemd. This
// package is not public API: only what package belay exports from it carries a compatibility promise.
//
// A Process runs a launcher.Launcher. It translates signals to Quiet, Stop and Dump, and answers health checks,
// by HTTP and to systemd's watchdog, from Ready and Alive.
//
// It must never judge the worker's health itself (package launcher does), nor use Redis.
package service
