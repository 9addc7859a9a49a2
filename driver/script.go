package driver

import (
	"crypto/sha1" //nolint:gosec // EVALSHA's digest of a script, not a secret
	"encoding/hex"
	"strings"
)

// A Script is a Lua text with its digest, by which Redis stores it.
type Script struct {
	name, source, plain string
	sourceSHA, plainSHA string
}

// NewScript returns the script with this name and text. A first line that begins with "#!" has flags for
// Redis 7; a server that does not know such lines (miniredis) gets the text without it.
func NewScript(name, source string) *Script {
	plain := source
	if strings.HasPrefix(source, "#!") {
		// The line stays as a comment so that error messages keep their line numbers.
		plain = "--" + source
	}
	return &Script{name: name, source: source, plain: plain, sourceSHA: sha(source), plainSHA: sha(plain)}
}

// Name returns the script's file name without ".lua".
func (s *Script) Name() string { return s.name }

// Text returns the source to load and its SHA1 in hex. flags reports whether the server knows a "#!lua" line.
func (s *Script) Text(flags bool) (source, sha1 string) {
	if flags {
		return s.source, s.sourceSHA
	}
	return s.plain, s.plainSHA
}

func sha(text string) string {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}
