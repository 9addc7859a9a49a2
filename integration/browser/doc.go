// Package browser holds the dashboard against a real browser: Chromium, without a window, which its tests start
// and end themselves. Sidekiq's own pages are held against it too, with Belay's jobs and workers.
//
// It is a module of its own, so that no browser's protocol is among the dependencies of Belay.
package browser
