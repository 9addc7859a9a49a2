package web

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
)

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"}

func TestEveryRouteTakesOnlyItsMethods(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.failed(r.keys.Dead(), 3)
	require.Greater(t, len(r.dash.routes), 20)
	before := r.digest()
	for path, route := range r.dash.routes {
		for _, method := range methods {
			got := r.ask(r.dash, method, path, "", "Sec-Fetch-Site", "same-origin")
			expected := method == "POST" && route.post != nil || (method == "GET" || method == "HEAD") && route.get != nil
			require.Equal(t, !expected, got.status == http.StatusMethodNotAllowed, "%s %s: %d", method, path, got.status)
			if !expected {
				require.Equal(t, route.allowed(), got.head.Get("Allow"))
			}
			require.NotEqual(t, http.StatusInternalServerError, got.status, "%s %s", method, path)
		}
	}
	require.Equal(t, before, r.digest(), "an empty form changes nothing")
}

// A link, an image or a prefetch is a GET.
func TestNoGetChangesAnything(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.failed(r.keys.Dead(), 3)
	r.do("SADD", r.keys.Queues(), "mail")
	r.do("LPUSH", r.keys.Queue("mail"), payload("waits", "Report"))
	before := r.digest()
	const everything = "?in=dead&do=delete&all=1&id=jid000001&only-delete=jid000001&name=mail&queue=mail&process=x&digest=x&to=other"
	for path := range r.dash.routes {
		for _, method := range []string{"GET", "HEAD"} {
			for _, do := range []string{"delete", "retry", "pause", "stop", "move"} {
				r.ask(r.dash, method, path+strings.Replace(everything, "delete", do, 1), "", "Sec-Fetch-Site", "same-origin")
			}
		}
	}
	require.Equal(t, before, r.digest())
}

func TestEveryPostComesFromThisSite(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{TrustedOrigins: []string{"https://admin.example.com"}})
	r.failed(r.keys.Dead(), 1)
	form := "in=dead&do=delete&id=jid000000&name=mail&process=x&digest=x"
	before := r.digest()
	for path, route := range r.dash.routes {
		if route.post == nil {
			continue
		}
		for _, headers := range [][]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example.com"}, {"Origin", "null"},
			{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example.com"},
		} {
			got := r.ask(r.dash, "POST", path, strings.Replace(form, "delete", "retry", 1), headers...)
			require.Equal(t, http.StatusForbidden, got.status, "%s %v", path, headers)
		}
		got := r.ask(r.dash, "POST", path, "", "Sec-Fetch-Site", "cross-site", "Origin", "https://admin.example.com")
		require.NotEqual(t, http.StatusForbidden, got.status, "%s: a trusted origin", path)
	}
	require.Equal(t, before, r.digest())
	got := r.ask(r.dash, "POST", "/act", form, "Sec-Fetch-Site", "same-origin")
	require.Equal(t, http.StatusSeeOther, got.status)
	require.NotEqual(t, before, r.digest(), "the same form from this site deletes")
}

func TestEveryRouteNeedsAKnownHost(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Hosts: LoopbackHosts()})
	for path, route := range r.dash.routes {
		for host, known := range map[string]bool{
			"localhost:7420": true, "LOCALHOST": true, "127.0.0.1:1": true, "[::1]:7420": true, "localhost.": true,
			"evil.example.com": false, "evil.example.com:7420": false, "localhost.evil.example.com": false, "127.0.0.1.evil.com": false,
			"": false, "127.0.0.1@evil.com": false,
		} {
			method := "GET"
			if route.get == nil {
				method = "POST"
			}
			got := r.ask(r.dash, method, path, "", "Host", host)
			require.Equal(t, !known, got.status == http.StatusForbidden, "%s of %q: %d", path, host, got.status)
		}
	}
}

func TestHostsAreComparedAsBrowsersSpellThem(t *testing.T) {
	t.Parallel()
	hosts := []string{"Admin.Example.COM", "[::1]", "jobs.example.com."}
	r := newRig(t, Config{Hosts: hosts})
	for _, host := range []string{"admin.example.com", "Admin.Example.com:7420", "[::1]:7420", "jobs.example.com"} {
		require.Equal(t, http.StatusOK, r.ask(r.dash, "GET", "/", "", "Host", host).status, host)
	}
	require.Equal(t, http.StatusForbidden, r.ask(r.dash, "GET", "/", "", "Host", "example.com").status)
	require.Equal(t, "Admin.Example.COM", hosts[0], "the slice is the caller's")
}

func TestOtherPathsAreNotFound(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	for _, path := range []string{
		"/nope", "//", "/./", "/busy/", "//busy", "/BUSY", "/busy%2f", "/%62usy/..", "/queue/mail", "/..", "/%2e%2e/etc/passwd", "/assets/",
		"/assets/../web.go", "/assets/%2e%2e/web.go", "/assets/belay.css/", "/assets", "/templates/layout.html", "/debug/pprof/", "/api", "/busy%00",
		"/busy%0d%0aX-Bad:1", "/metrics",
	} {
		got := r.get(path)
		require.Equal(t, http.StatusNotFound, got.status, path)
		require.Empty(t, got.head.Get("X-Bad"))
	}
}

func TestEveryAnswerHasTheHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	paths := []string{"/nope", "/job?jid=nope", "/retries?page=-1"}
	for path := range r.dash.routes {
		paths = append(paths, path)
	}
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			got := r.ask(r.dash, method, path, "")
			require.Equal(t, policy, got.head.Get("Content-Security-Policy"), path)
			require.Equal(t, "nosniff", got.head.Get("X-Content-Type-Options"))
			require.Equal(t, "no-referrer", got.head.Get("Referrer-Policy"))
			require.Equal(t, "DENY", got.head.Get("X-Frame-Options"))
			if !strings.HasPrefix(path, "/assets/") {
				require.Equal(t, "no-store", got.head.Get("Cache-Control"), path)
			}
			require.Empty(t, got.head.Get("Access-Control-Allow-Origin"))
		}
	}
	require.Equal(t, http.StatusOK, r.get("/healthz").status)
}

// Whatever the path is under which it is mounted, links lead to pages.
func TestAnyBasePath(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "/jobs", "/admin/jobs/"} {
		r := newRig(t, Config{BasePath: base})
		base = strings.TrimSuffix(base, "/")
		require.Equal(t, http.StatusOK, r.get(base+"/").status)
		require.Equal(t, http.StatusOK, r.get(base+"/busy").status)
		for _, page := range []string{"/", "/busy", "/retries"} {
			text := r.get(base + page).body
			require.NotContains(t, text, `href="/`)
			require.NotContains(t, text, `action="/`)
			require.NotContains(t, text, `src="/`)
			require.Contains(t, text, `href="assets/belay.css`)
		}
		require.Contains(t, r.get(base+"/no/such/page").body, `href="../../assets/belay.css`)
		if base != "" {
			require.Equal(t, http.StatusNotFound, r.get("/busy").status)
			require.Equal(t, http.StatusNotFound, r.get(base+"x/busy").status)
			got := r.get(base)
			require.Equal(t, http.StatusSeeOther, got.status)
			require.Equal(t, base[strings.LastIndex(base, "/")+1:]+"/", got.head.Get("Location"))
		}
	}
	r := newRig(t, Config{})
	stripped := http.StripPrefix("/anywhere", r.dash)
	require.Equal(t, http.StatusOK, r.ask(stripped, "GET", "/anywhere/busy", "").status)
	for asked, want := range map[string]string{"/anywhere": "anywhere/", "/anywhere?range=days": "anywhere/", "/anywhere/": ""} {
		require.Equal(t, want, r.ask(stripped, "GET", asked, "").head.Get("Location"), asked)
	}
	require.Equal(t, "jobs/", r.ask(http.StripPrefix("/admin/jobs", r.dash), "GET", "/admin/jobs", "").head.Get("Location"))
}

func TestAWrongCursorIsTheUsersMistake(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.failed(r.keys.Dead(), 3)
	for _, cursor := range []string{"x", "%3F", "eyJzdGFnZSI6LTF9", strings.Repeat("A", 3000)} {
		for _, path := range []string{"/job?jid=nowhere&after=", "/dead?class=Report&after=", "/confirm?in=dead&do=delete&class=Report&after="} {
			got := r.get(path + cursor)
			require.Equal(t, http.StatusBadRequest, got.status, path+cursor)
			require.Contains(t, got.body, "cursor")
			require.NotContains(t, got.body, "Redis")
		}
		text, err := url.QueryUnescape(cursor)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, r.post("/act", "in", "dead", "do", "delete", "all", "1", "cursor", text).status)
	}
	require.Equal(t, 3, r.size("ZCARD", r.keys.Dead()))
}

func TestAFilterKeepsTheOrderOfTheDead(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.failed(r.keys.Dead(), 5)
	shown := regexp.MustCompile(`Select job (jid\d+)`)
	all := shown.FindAllStringSubmatch(r.get("/dead").body, -1)
	require.Equal(t, "jid000004", all[0][1])
	require.Equal(t, all, shown.FindAllStringSubmatch(r.get("/dead?class=Report").body, -1))
}

// The clock of a worker that ended a run may be a few milliseconds behind the one that enqueued the job.
func TestATimelineHasAnEnqueueBeforeTheRunThatFailed(t *testing.T) {
	t.Parallel()
	second := time.Unix(1700000000, 0)
	names := func(place inspect.Place, enqueued, failed, retried time.Duration) (names []string) {
		entry := &inspect.Entry{CreatedAt: second, EnqueuedAt: second.Add(enqueued), FailedAt: second.Add(failed)}
		if retried > 0 {
			entry.RetriedAt = second.Add(retried)
		}
		for _, event := range timeline(inspect.Found{Place: place, At: second.Add(time.Hour), Since: second.Add(time.Hour), Entry: entry}) {
			names = append(names, event.Name)
		}
		return names
	}
	again := []string{"Created", "First failed", "Enqueued", "Failed again", "Runs again"}
	require.Equal(t, again, names(inspect.PlaceRetry, 10*time.Second+50*time.Microsecond, time.Second, 10*time.Second))
	require.Equal(t, again, names(inspect.PlaceRetry, 13*time.Second, time.Second, 10*time.Second), "another machine's clock is three seconds ahead")
	require.Equal(t, []string{"Created", "Enqueued", "First failed", "Runs again"}, names(inspect.PlaceRetry, 1005*time.Millisecond, time.Second, 0))
	require.Equal(t, []string{"Created", "First failed", "Enqueued", "Failed again", "Dead"}, names(inspect.PlaceDead, 10*time.Second+time.Millisecond, time.Second, 10*time.Second))
	require.Equal(t, []string{"Created", "First failed", "Failed again", "Enqueued", "Dead"}, names(inspect.PlaceDead, 40*time.Second, time.Second, 10*time.Second),
		"an operator killed it in its queue")
	require.Equal(t, []string{"Created", "First failed", "Failed again", "Enqueued"}, names(inspect.PlaceQueue, 40*time.Second, time.Second, 10*time.Second))
}

// A process reports the start of a run in whole seconds, so it may lie before the push.
func TestATimelineEndsWithWhereTheJobIs(t *testing.T) {
	t.Parallel()
	second := time.Unix(1700000000, 0)
	list := timeline(inspect.Found{
		Place: inspect.PlaceRunning, Since: second,
		Entry: &inspect.Entry{CreatedAt: second.Add(300 * time.Millisecond), EnqueuedAt: second.Add(400 * time.Millisecond)},
	})
	var names []string
	for _, event := range list {
		names = append(names, event.Name)
	}
	require.Equal(t, []string{"Created", "Enqueued", "Running"}, names)
}
