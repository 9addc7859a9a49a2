package dedup

import (
	"errors"
	"fmt"
	"time"
)

const (
	// MaxKey is the longest key of KeyLock in bytes. Ids and URLs are shorter. A longer key is probably a whole
	// document: hash it.
	MaxKey = 1024
	// DefaultKeyFor is how long a key is remembered unless the push says otherwise. Most programs that repeat a
	// request, such as after a lost reply, have given up by then.
	DefaultKeyFor = 24 * time.Hour
	// keyForm is to a key what form is to a job's arguments. No digest of a key equals that of a class.
	keyForm = "belay key v1"
)

// KeyDigest returns the digest of a key: the first 16 bytes, in hexadecimal, of the SHA-256 of
//
//	text("belay key v1")  text(key)
//
// without the spaces, where text is that of Digest. It returns an error if the key is empty or longer than
// MaxKey. The error does not quote the key, which may be secret.
func KeyDigest(key string) (string, error) {
	switch {
	case key == "":
		return "", errors.New("the key is empty; was a variable not set?")
	case len(key) > MaxKey:
		return "", fmt.Errorf("the key is %d bytes long, and %d are allowed: hash it", len(key), MaxKey)
	}
	return digestOf(appendText(appendText(make([]byte, 0, len(keyForm)+MaxKey+8), keyForm), key)), nil
}

// KeyLock returns the lock of a job with a key of the user's: UntilExpired, and equal for all jobs with this
// key, whatever their class and arguments. period is its TTL. It returns the errors of KeyDigest and CheckTTL.
func KeyLock(key string, period time.Duration, jid string) (Lock, error) {
	digest, err := KeyDigest(key)
	if err = errors.Join(err, CheckTTL(period)); err != nil {
		return Lock{}, err
	}
	return Lock{Digest: digest, JID: jid, Until: UntilExpired, TTL: period, Scheduled: true}, nil
}
