// Package web is Belay's dashboard. It is an http.Handler that a program mounts under any path; Serve runs it
// as a server of its own, as `belay web` does.
//
// Pages are rendered on the server and usable without JavaScript. A script refreshes the live parts of a page
// and draws the plots. All assets are embedded, and no page needs anything from another host. All links are
// relative, so the handler does not need to know the path under which a browser sees it.
//
// The package must never send a command to Redis except through inspect and check, change anything in response
// to a GET, or show text from Redis unescaped, because any program may have written it. A request must never
// wait for Redis without a deadline, or read more than a bounded number of entries. An act on many jobs is
// therefore a series of requests, each of which does a bounded part and reports how far it came.
package web
