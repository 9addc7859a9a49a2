package seal

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Keys are the keys of encrypted classes, each with an ID: ParseKeys and KeysFromEnv make them. The first one
// encrypts; each of them decrypts. Printing them shows only the IDs.
//
// To replace a key, first add the new one after it in all programs, then move the new one to the front, and
// remove the old one when no job with it is left: those in the dead set, too. The key whose ID sorts first
// decides which jobs of a Unique class are equal, so name keys by their age, such as 2026-09. Then only the
// removal of the oldest key has an effect on unique jobs: programs with it and programs without it accept equal
// jobs of each other.
//
// Replace a key before it has encrypted 4,000 million jobs: AES-GCM with random nonces is not meant for more.
type Keys struct {
	// load is the only field, so that nothing that prints a Keys by reflection can show a key.
	load func() (*ring, error)
}

// A ring is what is kept of keys. It has no key's bytes but within the ciphers.
type ring struct {
	ids     []string // in the order given; the first one seals
	ciphers map[string]cipher.AEAD
	digest  []byte // the key of Digest, derived from that of the ID that sorts first
}

const (
	keyBytes = 32 // AES-256
	// maxKeys bounds how many keys there may be. More than a few mean that old ones are never removed.
	maxKeys = 64
)

// keyID is the form of an ID. It is shorter than any spelling of a key, so that a key in its place is refused,
// and it has no character that JSON, HTML or a terminal changes.
var keyID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,32}$`)

// ParseKeys reads keys: for each one a word ID:KEY, separated by spaces or lines, the one that encrypts first.
// An ID has at most 32 letters, digits, dots, dashes and underscores. KEY is 32 random bytes, as 64 hexadecimal
// digits or in base64, such as the output of openssl rand -hex 32. The error names all mistakes, and no key.
func ParseKeys(text string) (Keys, error) {
	keys, err := parse(text)
	if err != nil {
		return Keys{}, err
	}
	return Keys{func() (*ring, error) { return keys, nil }}, nil
}

// KeysFromEnv returns the keys in an environment variable, as ParseKeys reads them, or in the file that is
// named by the variable of that name with _FILE at its end. They are read when they are first used, so that a
// program can import a class without having its keys. Without them the class cannot be enqueued, and Handle
// panics.
func KeysFromEnv(name string) Keys {
	var mutex sync.Mutex
	var keys *ring
	return Keys{func() (*ring, error) {
		mutex.Lock()
		defer mutex.Unlock()
		if keys != nil {
			return keys, nil
		}
		text, err := environment(name)
		if err == nil {
			keys, err = parse(text)
		}
		if err != nil {
			return nil, fmt.Errorf("the keys of %s: %w", name, err)
		}
		return keys, nil
	}}
}

func environment(name string) (string, error) {
	text, path := os.Getenv(name), os.Getenv(name+"_FILE")
	switch {
	case text != "" && path != "":
		return "", errors.New("both variables, with and without _FILE, are set; set one")
	case text == "" && path == "":
		return "", errors.New("neither variable, with or without _FILE, is set")
	case text != "":
		return text, nil
	}
	file, err := os.ReadFile(path)
	return string(file), err
}

// parse reads keys. No error quotes what is no ID: it may be a key.
func parse(text string) (*ring, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, errors.New("there is no key; one is made by openssl rand -hex 32, and written as ID:KEY")
	}
	if len(words) > maxKeys {
		return nil, fmt.Errorf("there are %d keys, and at most %d are allowed: remove old ones", len(words), maxKeys)
	}
	keys := &ring{ciphers: make(map[string]cipher.AEAD)}
	var errs []error
	for n, word := range words {
		id, spelled, _ := strings.Cut(word, ":")
		key, err := keyOf(spelled)
		switch {
		case !keyID.MatchString(id):
			err = errors.New("it must be ID:KEY, with an ID of at most 32 letters, digits, dots, dashes and underscores")
		case slices.Contains(keys.ids, id):
			err = fmt.Errorf("the ID %q is there twice", id)
		case err == nil:
			err = keys.add(id, key)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("key %d of %d: %w", n+1, len(words), err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return keys, nil
}

func keyOf(spelled string) (key []byte, err error) {
	if len(spelled) == hex.EncodedLen(keyBytes) {
		key, err = hex.DecodeString(spelled)
	} else {
		key, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(spelled, "="))
	}
	if err != nil || len(key) != keyBytes {
		return nil, fmt.Errorf("it must have %d bytes, as %d hexadecimal digits or in base64", keyBytes, hex.EncodedLen(keyBytes))
	}
	return key, nil
}

// add adds a key.
func (r *ring) add(id string, key []byte) error {
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	if r.ciphers[id], err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return err
	}
	r.ids = append(r.ids, id)
	if id != slices.Min(r.ids) {
		return nil
	}
	// Not the key itself: what one algorithm reveals of a key must not help against the other.
	r.digest, err = hkdf.Key(sha256.New, key, nil, "belay digest of sealed arguments v1", sha256.Size)
	return err
}

// Check returns why the keys cannot be used, or nil.
func (k Keys) Check() error {
	_, err := k.ring()
	return err
}

var errNoKeys = errors.New("there are no keys: make them by ParseKeys or KeysFromEnv, and check the error")

func (k Keys) ring() (*ring, error) {
	if k.load == nil {
		return nil, errNoKeys
	}
	return k.load()
}

// Empty reports whether k is the zero Keys, which ParseKeys returns with an error.
func (k Keys) Empty() bool { return k.load == nil }

// String returns the IDs of the keys.
func (k Keys) String() string {
	keys, err := k.ring()
	if err != nil {
		return "no keys"
	}
	return "keys " + strings.Join(keys.ids, ", ")
}

// Digest returns what identifies a job whose arguments are sealed, instead of the digest of its plain
// arguments. Without the keys it tells nothing about the arguments, not even to a program that tries all likely
// ones.
func (k Keys) Digest(plain string) (string, error) {
	keys, err := k.ring()
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, keys.digest)
	_, _ = mac.Write([]byte(plain)) // it never fails
	return hex.EncodeToString(mac.Sum(nil))[:len(plain)], nil
}

// LimitKey returns what stands for a key of a limit in Redis if the class is encrypted: 32 hexadecimal digits,
// which cannot be computed without the keys. The empty key, which has no secret, stays empty. A caller of
// belay.Do, or a class that is not encrypted, gives it as its key to share the gate of an encrypted class.
func (k Keys) LimitKey(key string) (string, error) {
	if key == "" {
		return "", nil
	}
	sum := sha256.Sum256([]byte("belay limit key v1\x00" + key)) // no digest of a key equals that of arguments
	return k.Digest(hex.EncodeToString(sum[:16]))
}

// cipher returns the cipher of a key.
func (r *ring) cipher(id string) (cipher.AEAD, error) {
	found := r.ciphers[id]
	if found == nil {
		return nil, fmt.Errorf("it is not among this program's keys (%s): add it", cmp.Or(strings.Join(r.ids, ", "), "none"))
	}
	return found, nil
}
