package lua

import "github.com/belayq/belay/driver"

var releaseScript = load("release")

// Release frees the lock of this digest, whoever holds it, and answers its value, as HolderOf reads it; "" if nobody held it.
func (k Keys) Release(digest string) Ask[string] {
	return Ask[string]{
		Call: driver.Call{Script: releaseScript, Keys: []string{k.Lock(digest), k.Unique()}, Args: []string{digest}},
		read: func(value any) (string, error) {
			word, rest, err := partsOf(value)
			if err != nil || word == "free" {
				return "", err
			}
			texts, err := textsOf(rest)
			if err != nil || word != "released" || len(texts) != 1 {
				return "", errShape(value)
			}
			return texts[0], nil
		},
	}
}
