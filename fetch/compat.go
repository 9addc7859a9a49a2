package fetch

type (
	Pulse = HeartbeatReply
)
