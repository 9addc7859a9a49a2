// Package browser tests the dashboard in a real browser: Chromium without a window, which the tests start and
// end. It also tests Sidekiq's own pages with Belay's jobs and workers.
//
// It is a module of its own, so that no browser's protocol is among the dependencies of Belay.
package browser
