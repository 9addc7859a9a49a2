package launcher

import "errors"

var errClosed = errors.New("belay: the client is closed: open one, and close it after Run has returned")

// isClosed reports whether the client of this Launcher was closed. Its own
// connections would live on, and do everything but answer for its health and release what waits. Not every
// driver can tell.
func (l *Launcher) isClosed() bool {
	client, tells := l.cfg.Client.(interface{ Closed() bool })
	return tells && client.Closed()
}

// watchClient logs, once, that the client was closed while the process runs.
func (l *Launcher) watchClient() {
	if l.isClosed() && !l.watch.closedLogged {
		l.watch.closedLogged = true
		l.cfg.Log.Error().Msg("the client was closed under the running server: it works on, but is not ready")
	}
}
