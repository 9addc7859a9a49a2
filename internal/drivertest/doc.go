// Package drivertest gives tests a Redis to run against.
//
// Redis and Start run a real redis-server on a free loopback port, and Miniredis runs the fake one.
// StartSentinel and StartCluster run several of them that replace each other. Package faultproxy stands between
// a driver and a server to lose a chosen reply; package slowlink makes the connection slow.
//
// Nothing here is for production, and no test may pass by not finding a server.
package drivertest
