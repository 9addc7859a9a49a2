package launcher

import "errors"

var errClosed = errors.New("belay: the client is closed: open one, and close it after Run has returned")

// isClosed reports whether the client that this Launcher was made with has been closed. The Launcher's own
// connections would still work, except for health checks and for ending idle waits. Not every driver knows
// this.
func (l *Launcher) isClosed() bool {
	client, tells := l.cfg.Client.(interface{ Closed() bool })
	return tells && client.Closed()
}

// watchClient logs, once, that the client was closed while the process runs.
func (l *Launcher) watchClient() {
	if l.isClosed() && !l.watch.toldClosed {
		l.watch.toldClosed = true
		l.cfg.Log.Error().Msg("the client was closed under the running server: it works on, but is not ready")
	}
}
