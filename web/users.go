package web

import (
	"bufio"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// A user is the authenticated user of a request; the zero user means that the program has a middleware
// of its own that authenticates.
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
// are added. For Listen and Serve a nil *Users means that no user is asked for.
type Users struct {
	byName map[string]account
	cost   int // the highest of a bcrypt hash; without one, bcrypt's own default
	// hashing bounds the concurrent comparisons: bcrypt is slow on purpose, and guesses must not take the
	// processors from the rest of the program.
	hashing turns
	// compare is bcrypt's; tests count what it costs.
	compare func(hash, password []byte) error
	secret  [32]byte
	known   sync.Map // by name, the keyed hash of the password that was right last
}

type account struct {
	hash   string // of bcrypt, or the SHA-256 in hexadecimal
	viewer bool
}

// NewUsers returns an empty set of users, which admits no request.
func NewUsers() *Users {
	u := &Users{
		byName: make(map[string]account), hashing: turns{free: 2, waiting: make(map[string][]chan struct{})},
		compare: bcrypt.CompareHashAndPassword,
	}
	_, _ = rand.Read(u.secret[:])
	return u
}

// maxFile bounds a file of passwords, in bytes.
const maxFile = 1 << 20

// Add adds a user. file has the hash of the password, in lines NAME:HASH, as htpasswd -B writes them, or HASH
// alone. HASH is a bcrypt hash ($2y$…), or a SHA-256 in 64 hexadecimal digits, as sha256sum prints it; use
// the latter only for long random passwords. A viewer may not act. A name that is there already is an error:
// the one of two roles that counted would depend on the order of the calls.
func (u *Users) Add(name string, file io.Reader, viewer bool) error {
	if name == "" || strings.Contains(name, ":") {
		return errors.New("the name of a user is empty or has a colon")
	}
	if _, exists := u.byName[name]; exists {
		return fmt.Errorf("user %s was added before: a user has one password and one role", name)
	}
	lines := bufio.NewScanner(io.LimitReader(file, maxFile))
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
		cost, err := bcrypt.Cost([]byte(hash))
		if err != nil && !isSHA256(hash) {
			return fmt.Errorf("user %s: the line has neither a bcrypt hash ($2y$...) nor a SHA-256 (64 hexadecimal digits)", name)
		}
		u.cost = max(u.cost, cost)
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

// Len returns the number of users; of nil, 0.
func (u *Users) Len() int {
	if u == nil {
		return 0
	}
	return len(u.byName)
}

// Require returns a handler that admits only these users. GET healthz of a Dashboard needs no user: it
// reports only whether Redis answers. Each wrong password is logged: by the Logger of a Dashboard, for another
// handler by slog.Default. It panics if u is nil.
func (u *Users) Require(next http.Handler) http.Handler {
	if u == nil {
		panic("web: Users.Require: the users are nil; serve the handler itself if no user is asked for")
	}
	dashboard, _ := next.(*Dashboard)
	admitted := held(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, given := r.BasicAuth()
		who, found := u.check(r.Context(), addressOf(r.RemoteAddr), name, password)
		if !found {
			if given && password != "" && r.Context().Err() == nil {
				log := slog.Default()
				if dashboard != nil {
					log = dashboard.cfg.Logger
				}
				log.Warn("login refused", "user", plain(cut(maxLoggedName, name)), "remote", r.RemoteAddr)
			}
			if dashboard != nil && dashboard.isOpen(r) {
				next.ServeHTTP(w, r)
				return
			}
			head := w.Header()
			head.Set("Connection", "close") // clients without a password keep none open
			head.Set("WWW-Authenticate", `Basic realm="Belay", charset="UTF-8"`)
			head.Set("X-Content-Type-Options", "nosniff")
			head.Set("Cache-Control", "no-store")
			http.Error(w, "a user and a password are needed", http.StatusUnauthorized)
			return
		}
		admitted.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, who)))
	})
}

func (d *Dashboard) isOpen(r *http.Request) bool {
	path, below := strings.CutPrefix(r.URL.Path, d.cfg.BasePath)
	return below && d.routes[path].open
}

// maxLoggedName bounds the name of a refused login in the log, in characters.
const maxLoggedName = 100

// check compares a password. A wrong one takes equally long for every name, as long as the most expensive hash
// of all users, so the time reveals neither the names of users nor the kinds of their hashes.
func (u *Users) check(ctx context.Context, from, name, password string) (user, bool) {
	if password == "" || u.Len() == 0 {
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
	if !exists || isSHA256(account.hash) {
		// The comparison is too quick to wait for a turn.
		want, _ := hex.DecodeString(account.hash)
		sum := sha256.Sum256([]byte(password))
		if subtle.ConstantTimeCompare(sum[:], want) == 1 {
			u.known.Store(name, keyed)
			return user{name, account.viewer}, true
		}
		account.hash = ""
	}
	if !u.hashing.take(ctx, from) {
		return user{}, false
	}
	defer u.hashing.pass()
	if account.hash != "" && u.compare([]byte(account.hash), []byte(password)) == nil {
		u.known.Store(name, keyed)
		return user{name, account.viewer}, true
	}
	u.pad(account.hash, password)
	return user{}, false
}

// pad makes a comparison with a hash as expensive as one with the most expensive hash. Each step of the cost
// doubles the time, so the costs from that of the hash up to the highest add up to it.
func (u *Users) pad(hash, password string) {
	most := cmp.Or(u.cost, bcrypt.DefaultCost)
	cost, err := bcrypt.Cost([]byte(hash))
	if err != nil { // nothing was compared
		_ = u.compare(anyHash(most), []byte(password))
		return
	}
	for ; cost < most; cost++ {
		_ = u.compare(anyHash(cost), []byte(password))
	}
}

// anyHash returns a hash of no password.
func anyHash(cost int) []byte { return fmt.Appendf(nil, "$2a$%02d$%053d", cost, 0) }
