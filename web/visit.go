package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/inspect"
)

// A visit is one request to a route.
type visit struct {
	w    http.ResponseWriter
	r    *http.Request
	ctx  context.Context
	form url.Values // of the query for a GET, of the body for a POST
	user user
	// shards are the links to the shards; empty without shards.
	shards  []choice
	inShard bool // the path names one of them
}

// A failure is an error with a status and a text for the user.
type failure struct {
	status int
	text   string
}

func (f failure) Error() string { return f.text }

func fail(status int, format string, args ...any) error {
	return failure{status, fmt.Sprintf(format, args...)}
}

// errFailed is the answer to a request that met a bug of the dashboard.
var errFailed = fail(http.StatusInternalServerError, "The dashboard failed; its log has the reason.")

// policy is the Content-Security-Policy: nothing but this server's own scripts, styles and images.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	v := &visit{w: w, r: r, ctx: r.Context(), user: userOf(r)}
	defer func() {
		problem := recover()
		if problem == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so too
			panic(problem)
		}
		if problem != nil {
			d.cfg.Logger.Error("dashboard panicked", "path", r.URL.Path, "panic", problem, "stack", string(debug.Stack()))
			d.refuse(v, errFailed)
		}
	}()
	if err := d.serve(v); err != nil {
		d.refuse(v, err)
	}
}

func (d *Dashboard) serve(v *visit) error {
	if !d.knowsHost(v.r.Host) {
		return fail(http.StatusForbidden, "This server is not %s. Open it by an address that it was started for.", v.r.Host)
	}
	path, below := strings.CutPrefix(v.r.URL.Path, d.cfg.BasePath)
	if path == "" && below {
		v.redirect(v.lastSegment() + "/")
		return nil
	}
	if !below {
		return fail(http.StatusNotFound, "There is no such page.")
	}
	all := d
	d, path, err := all.choose(v, path)
	if err != nil {
		return err
	}
	if path == "" {
		v.redirect(shardPath[1:] + d.name + "/")
		return nil
	}
	route, found := d.routes[path]
	if !found {
		return fail(http.StatusNotFound, "There is no such page.")
	}
	handle := route.handler(v.r.Method)
	if handle == nil {
		v.w.Header().Set("Allow", route.allowed())
		return fail(http.StatusMethodNotAllowed, "%s does not accept %s.", path, v.r.Method)
	}
	if err := d.origins.Check(v.r); err != nil {
		return fail(http.StatusForbidden, "The request came from a page of another site.")
	}
	if strings.HasPrefix(path, "/assets/") {
		return handle(d, v)
	}
	if v.r.Method == http.MethodPost && !d.mayAct(v) { // before its body is read
		v.w.Header().Set("Connection", "close") // else the server would read the body before it answers
		return d.permit(v, Act{Name: path[1:]})
	}
	// Before a slot is taken: a client that sends its form slowly must not keep others out.
	if err := v.readForm(); err != nil {
		return err
	}
	var cancel context.CancelFunc
	v.ctx, cancel = context.WithTimeout(v.ctx, requestTimeout)
	defer cancel()
	if route.open { // it needs no user, so that it must not take a slot from users
		return handle(d, v)
	}
	leave, err := d.enter(v.ctx)
	if err != nil {
		return err
	}
	defer leave()
	if len(d.shards) > 0 && !route.sums {
		return d.toShard(v, path)
	}
	return handle(d, v)
}

// lastSegment returns the end of the path as the browser has it. A program that mounts the handler may have
// removed all of the path (http.StripPrefix).
func (v *visit) lastSegment() string {
	path := v.r.URL.Path
	if asked, err := url.ParseRequestURI(v.r.RequestURI); path == "" && err == nil {
		path = asked.EscapedPath()
	}
	return path[strings.LastIndexByte(path, '/')+1:]
}

// knowsHost reports whether a Host header has one of the configured names.
func (d *Dashboard) knowsHost(header string) bool {
	if len(d.cfg.Hosts) == 0 {
		return true
	}
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = header
	}
	return slices.Contains(d.cfg.Hosts, hostName(host))
}

// hostName returns a host name in the spelling in which names are compared.
func hostName(host string) string {
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

// enter waits for one of the slots.
func (d *Dashboard) enter(ctx context.Context) (leave func(), err error) {
	select {
	case d.slots <- struct{}{}:
		return func() { <-d.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(slotWait):
		return nil, fail(http.StatusServiceUnavailable, "Too many requests at once. Try again in a moment.")
	}
}

// readForm reads the query of a GET or the body of a POST; never both: a link may have set the query of a POST.
func (v *visit) readForm() error {
	v.form = v.r.URL.Query()
	if v.r.Method != http.MethodPost {
		return nil
	}
	// The server of a program that mounts the handler may have no deadline.
	reads := http.NewResponseController(v.w)
	_ = reads.SetReadDeadline(time.Now().Add(readTimeout)) // a middleware's writer may not support it
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxBody)
	if err := v.r.ParseForm(); err != nil { // what is left of the body keeps the deadline
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return fail(http.StatusRequestEntityTooLarge, "The request is too large. Select fewer jobs.")
		}
		return fail(http.StatusBadRequest, "The form cannot be read.")
	}
	_ = reads.SetReadDeadline(time.Time{}) // it would end the act: a server reads on to see whether its client is there
	v.form = v.r.PostForm
	return nil
}

// redirect sends the browser on by a relative address, which works under any path.
func (v *visit) redirect(to string) {
	v.w.Header().Set("Location", to)
	v.w.WriteHeader(http.StatusSeeOther)
}

func (d *Dashboard) refuse(v *visit, err error) {
	var status int
	var own failure
	text := err.Error()
	switch {
	case errors.As(err, &own):
		status, text = own.status, own.text
	case errors.Is(err, inspect.ErrCursor):
		status, text = http.StatusBadRequest, "The address has a wrong cursor. Begin the search or the act again."
	case v.ctx.Err() != nil, driver.Outage(err):
		status, text = http.StatusServiceUnavailable, "Redis does not answer: "+text
	default:
		text = "Redis refused: " + text
		status = http.StatusBadGateway
	}
	if status >= http.StatusInternalServerError {
		d.cfg.Logger.Warn("dashboard request failed", "path", v.r.URL.Path, "error", err)
	}
	if status == http.StatusServiceUnavailable {
		v.w.Header().Set("Retry-After", "2")
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	var out bytes.Buffer
	p := page{Title: http.StatusText(status), Body: text, Offline: true, Shards: v.shards, InShard: v.inShard, Root: rootOf(v.r, d.cfg.BasePath)}
	if v.inShard { // its links stay in the shard
		p.Root = strings.TrimPrefix(p.Root, "../")
	}
	if err := templates["error"].ExecuteTemplate(&out, "layout", p); err == nil {
		_, _ = v.w.Write(out.Bytes())
	}
}
