// Package browser holds the dashboard against a real browser: Chromium, without a window, which its tests start
// and end themselves.
//
// It is a module of its own, so that no browser's protocol is among the dependencies of Belay.
package browser
