package main

import "context"

func peerNames() []string { return []string{"asynq", "sidekiq", "bullmq", "river"} }

func (b *bench) preparePeers(context.Context) error { return nil }
