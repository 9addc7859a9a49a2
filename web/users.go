package web

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// A user is the authenticated user of a request; the zero user is that of a program with a middleware of its
// own.
type user struct {
	name   string
	viewer bool // may not act
}

type userKey struct{}

func userOf(r *http.Request) user {
	u, _ := r.Context().Value(userKey{}).(user)
	return u
}

// Users authenticates by HTTP's basic authentication. Its methods are safe for concurrent use once all users
// are added.
type Users struct {
	byName map[string]account
	// hashing bounds the concurrent comparisons: bcrypt is slow on purpose, and guesses must not take the
	// processors from the rest of the program.
	hashing chan struct{}
	secret  [32]byte
	known   sync.Map // by name, the keyed hash of the password that was right last
}

type account struct {
	hash   string // of bcrypt, or the SHA-256 in hexadecimal
	viewer bool
}

// NewUsers returns an empty set of users, which admits no request.
func NewUsers() *Users {
	u := &Users{byName: make(map[string]account), hashing: make(chan struct{}, 2)}
	_, _ = rand.Read(u.secret[:])
	return u
}

// mostFile bounds a file of passwords, in bytes.
const mostFile = 1 << 20

// Add adds a user. file has the hash of the password, in lines NAME:HASH, as htpasswd -B writes them, or HASH
// alone. HASH is a bcrypt hash ($2y$…), or a SHA-256 in 64 hexadecimal digits, as sha256sum prints it; use
// the latter only for long random passwords. A viewer may not act.
func (u *Users) Add(name string, file io.Reader, viewer bool) error {
	if name == "" || strings.Contains(name, ":") {
		return errors.New("the name of a user is empty or has a colon")
	}
	lines := bufio.NewScanner(io.LimitReader(file, mostFile))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		hash := line
		if before, after, found := strings.Cut(line, ":"); found {
			if before != name {
				continue
			}
			hash = after
		}
		hash = strings.TrimSpace(strings.TrimSuffix(hash, "-")) // sha256sum writes the file's name, - for its input
		if _, err := bcrypt.Cost([]byte(hash)); err != nil && !isSHA256(hash) {
			return fmt.Errorf("user %s: the line has neither a bcrypt hash ($2y$...) nor a SHA-256 (64 hexadecimal digits)", name)
		}
		u.byName[name] = account{hash, viewer}
		return nil
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return fmt.Errorf("user %s has no line in the file", name)
}

func isSHA256(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == sha256.Size
}

// Len returns the number of users.
func (u *Users) Len() int { return len(u.byName) }

// Require returns a handler that admits only these users. GET healthz of a Dashboard needs no user: it
// reports only whether Redis answers.
func (u *Users) Require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, given := r.BasicAuth()
		who, found := u.check(r.Context(), name, password)
		if !given || !found {
			if dashboard, is := next.(*Dashboard); is && dashboard.isOpen(r) {
				next.ServeHTTP(w, r)
				return
			}
			head := w.Header()
			head.Set("WWW-Authenticate", `Basic realm="Belay", charset="UTF-8"`)
			head.Set("X-Content-Type-Options", "nosniff")
			head.Set("Cache-Control", "no-store")
			http.Error(w, "a user and a password are needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, who)))
	})
}

func (d *Dashboard) isOpen(r *http.Request) bool {
	path, below := strings.CutPrefix(r.URL.Path, d.cfg.BasePath)
	return below && d.routes[path].open
}

// check compares a password. For an unknown user it takes as long as for one with a bcrypt hash.
func (u *Users) check(ctx context.Context, name, password string) (user, bool) {
	if password == "" {
		return user{}, false
	}
	account, exists := u.byName[name]
	mac := hmac.New(sha256.New, u.secret[:])
	_, _ = mac.Write([]byte(name + "\x00" + password))
	keyed := mac.Sum(nil)
	known, _ := u.known.Load(name)
	// A page refreshes itself every few seconds, and bcrypt takes a tenth of one.
	if sum, is := known.([]byte); is && hmac.Equal(sum, keyed) {
		return user{name, account.viewer}, true
	}
	select {
	case u.hashing <- struct{}{}:
		defer func() { <-u.hashing }()
	case <-ctx.Done():
		return user{}, false
	}
	if !exists {
		account.hash = u.anyHash()
	}
	if !matches(account.hash, password) || !exists {
		return user{}, false
	}
	u.known.Store(name, keyed)
	return user{name, account.viewer}, true
}

// anyHash returns a hash to compare with, of bcrypt if a user has one.
func (u *Users) anyHash() (hash string) {
	for _, account := range u.byName {
		if hash == "" || isSHA256(hash) {
			hash = account.hash
		}
	}
	return hash
}

func matches(hash, password string) bool {
	if want, err := hex.DecodeString(hash); err == nil {
		sum := sha256.Sum256([]byte(password))
		return subtle.ConstantTimeCompare(sum[:], want) == 1
	}
	return bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
}
