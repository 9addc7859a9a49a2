package chaosplan

// Limited is the class of limited jobs, and LimitedQueue their queue. The key of a job is its Spec's Kind.
const (
	Limited      = "Limited"
	LimitedQueue = "limited"
)
