package launcher

// logStart logs what is about to start: which release, for which queues, on which Redis. It comes before Redis is asked
// for anything, because an operator needs it most where Redis does not answer.
func (l *Launcher) logStart() {
	event := l.cfg.Log.Info().Str("version", moduleVersion()).Strs("queues", l.queues.Names()).Int("concurrency", l.cfg.Concurrency)
	if client, tells := l.cfg.Client.(interface{ Server() string }); tells {
		event.Str("redis", client.Server())
	}
	event.Msg("starting")
}
