// Package drivertest gives tests a Redis to run against, and says what a driver must do.
//
// Redis and Start run a real redis-server on a free loopback port, Miniredis the fake one, and faultproxy stands
// between a driver and either to lose a chosen answer. Exercise is the conformance suite: what the interfaces of
// package driver promise is written there as tests, and an adapter is right when it passes.
//
// Nothing here is for production, and no test may pass by not finding a server.
package drivertest
