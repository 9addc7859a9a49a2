package launcher

// logStart logs the release, the queues and the Redis server. It runs before the first call to Redis,
// because an operator needs the line most when Redis does not answer.
func (l *Launcher) logStart() {
	event := l.cfg.Log.Info().Str("version", moduleVersion()).Strs("queues", l.queues).Int("concurrency", l.Concurrency())
	if client, tells := l.cfg.Client.(interface{ Server() string }); tells {
		event.Str("redis", client.Server())
	}
	event.Msg("starting")
}
