package lua

var releaseScript = load("release")

// A Released is the result of a Release.
type Released struct {
	// Held reports whether there was a lock to free.
	Held bool
	// Value is the lock's value, for HolderOf; "" if the key had another type.
	Value string
}

// Release frees the lock of this digest, whatever its owner, and deletes the key even if it holds something
// else.
func (k Keys) Release(digest string) Ask[Released] { return k.ReleaseFrom(digest, "") }

// ReleaseFrom is Release for a lock that has this value; "" is any.
func (k Keys) ReleaseFrom(digest, value string) Ask[Released] {
	return asking(releaseScript, []string{k.Lock(digest), k.Unique()}, []string{digest, value}, func(r reader) (released Released, err error) {
		if released.Held = r.text() == "released"; released.Held {
			released.Value = r.text()
		}
		return released, r.end()
	})
}
