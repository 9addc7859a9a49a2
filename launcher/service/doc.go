// Package service is a worker process as the operating system sees it: signals, health checks, systemd.
//
// A Process runs a Worker and carries to it what the world outside says: a signal becomes Quiet, Stop or Dump, and a question
// about its health, by HTTP or by systemd's watchdog, goes to Ready or Alive.
//
// It must never judge the worker itself (package launcher does), nor speak to Redis.
package service
