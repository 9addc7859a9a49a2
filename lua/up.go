package lua

import "time"

var upScript = load("up")

// UpSince reads since when there has been a live process at each instant, by Redis' clock: now if there is
// none, or if that is not known.
func (k Keys) UpSince() Ask[time.Time] {
	return asking(upScript, []string{k.Alive(), k.Up()}, nil, func(r reader) (time.Time, error) {
		return time.UnixMilli(int64(r.number())), r.end()
	})
}
