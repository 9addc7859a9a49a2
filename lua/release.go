package lua

var releaseScript = load("release")

// A Released is the answer to a Release.
type Released struct {
	// Held reports whether there was a lock to free.
	Held bool
	// Value is the lock's value, for HolderOf; "" if the key had another type.
	Value string
}

// Release frees the lock of this digest, whatever job holds it, and whatever stands in its place.
func (k Keys) Release(digest string) Ask[Released] {
	return asking(releaseScript, []string{k.Lock(digest), k.Unique()}, []string{digest}, func(value any) (Released, error) {
		word, rest, err := partsOf(value)
		if err != nil || word == "free" {
			return Released{}, err
		}
		texts, err := textsOf(rest)
		if err != nil || word != "released" || len(texts) != 1 {
			return Released{}, errShape(value)
		}
		return Released{Held: true, Value: texts[0]}, nil
	})
}
