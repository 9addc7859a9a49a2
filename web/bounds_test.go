package web

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/lua"
)

func TestPagesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.failed(r.keys.Dead(), 1000)
	rows := func(path string) int { return strings.Count(r.get(path).body, "data-key=") }
	require.Equal(t, defaultRows, rows("/dead"))
	require.Equal(t, 50, rows("/dead?rows=50"))
	for _, value := range []string{"0", "-1", "1000000", "x", "", "1e9", "99999999999999999999"} {
		require.Equal(t, defaultRows, rows("/dead?rows="+value), value)
		require.Equal(t, defaultRows, rows("/dead?page="+value), value)
	}
	require.Equal(t, maxRows, rows("/dead?rows=100&page=3"))
	require.Contains(t, r.get("/dead?page=40").body, "976–1,000 of 1,000")
	require.Contains(t, r.get("/dead?page=41").body, "976–1,000 of 1,000")
}

func TestALargeJobMakesNoLargePage(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	long := strings.Repeat("x", 1<<20)
	for n := range 25 {
		r.do("ZADD", r.keys.Dead(), fmt.Sprint(n), fmt.Sprintf(`{"class":"%s","args":["%s"],"jid":"large%d","queue":"%s","error_class":"%s","error_message":"%s"}`,
			long[:1000], long, n, long[:255], long[:2000], long[:9000]))
	}
	require.Less(t, len(r.get("/dead").body), 100<<10)
	got := r.get("/job?jid=large21")
	for form := continuing(got.body); form != nil; form = continuing(got.body) { // 20 MB may take several pages
		require.Less(t, len(got.body), 100<<10)
		got = r.get("/job?" + encode(form...))
	}
	require.Contains(t, got.body, "Only the beginning of 1.0 MB is shown.")
	require.Less(t, len(got.body), 100<<10)
}

func TestLongNamesMakeNoLargePage(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	long := strings.Repeat("n", 1<<20)
	for n := range 10 {
		job := fmt.Sprintf(`{"class":"A","args":[],"jid":"%s%d","queue":"%s"}`, long, n, long)
		r.do("ZADD", r.keys.Dead(), fmt.Sprint(n), job)
		r.do("LPUSH", r.keys.Queue("mail"), job)
		r.do("SADD", r.keys.Queues(), "mail", long+fmt.Sprint(n))
		r.do("SADD", r.keys.Processes(), long+fmt.Sprint(n))
	}
	for _, path := range []string{"/", "/queues", "/dead", "/queue?name=mail", "/busy", "/series.json"} {
		got := r.get(path)
		require.Equal(t, http.StatusOK, got.status, path)
		require.Less(t, len(got.body), 100<<10, path)
	}
	require.Contains(t, r.get("/").body, "names of more than 255 bytes are not listed; there are 10")
	id := idOfUnreadable.FindString(r.get("/dead").body)
	require.Equal(t, http.StatusOK, r.get("/job?jid="+id).status, "the job has a page by its ID")
}

func TestALargeFormIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.failed(r.keys.Dead(), 1)
	got := r.post("/act", "in", "dead", "do", "delete", "all", "1", "pad", strings.Repeat("x", maxBody))
	require.Equal(t, http.StatusRequestEntityTooLarge, got.status)
	require.Equal(t, 1, r.size("ZCARD", r.keys.Dead()))
	got = r.ask(r.dash, "POST", "/act?in=dead&do=delete&all=1", "", "Sec-Fetch-Site", "same-origin")
	require.Equal(t, http.StatusBadRequest, got.status, "the query of a POST says nothing")
	got = r.ask(r.dash, "POST", "/act", `{"in":"dead","do":"delete","all":"1"}`, "Sec-Fetch-Site", "same-origin", "Content-Type", "application/json")
	require.Equal(t, http.StatusBadRequest, got.status)
	require.Equal(t, 1, r.size("ZCARD", r.keys.Dead()))
}

func TestTooManyRequestsAtOnceAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	for range atOnce {
		r.dash.slots <- struct{}{}
	}
	got := r.get("/busy")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "2", got.head.Get("Retry-After"))
	<-r.dash.slots
	require.Equal(t, http.StatusOK, r.get("/busy").status)
	require.Equal(t, http.StatusOK, r.get("/busy").status, "a request frees its slot")
}

// A probe of liveness needs no user, so it takes no slot from users; and while they have all slots, it is
// answered.
func TestProbesTakeNoSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	for range atOnce {
		r.dash.slots <- struct{}{}
	}
	require.Equal(t, "ok\n", r.get("/healthz").body)
}

func TestAnAwayRedisIsReported(t *testing.T) {
	t.Parallel()
	client, err := goredisdriver.Open("redis://:S3cr3tCanary@127.0.0.1:1/0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	r := newRig(t, Config{})
	dash := r.dashboard(client, r.dash.cfg)
	for path, route := range dash.routes {
		if route.get == nil || strings.HasPrefix(path, "/assets/") {
			continue
		}
		got := r.ask(dash, "GET", path+"?jid=x&name=mail&in=dead&do=delete&bid=x", "")
		if path != "/metrics" && path != "/reset" {
			require.Equal(t, http.StatusServiceUnavailable, got.status, path)
		}
		require.NotContains(t, got.body+r.log.String(), "S3cr3tCanary")
	}
}

var idOfUnreadable = regexp.MustCompile(`unreadable-[0-9a-f]+`)

func TestMaskedArgsAreShownNowhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Mask: func(class string, args json.RawMessage) string {
		return fmt.Sprintf("[%d bytes of %s]", len(args), class)
	}})
	secret := `{"class":"Card","args":["S3cr3tCanary"],"jid":"j1","queue":"mail","retry":true,"unique_args":["S3cr3tCanary"],"meta":{"a":"S3cr3tCanary"}}`
	for n, set := range []string{r.keys.Schedule(), r.keys.Retry(), r.keys.Dead()} {
		r.do("ZADD", set, fmt.Sprint(n), secret, fmt.Sprint(n), "unreadable S3cr3tCanary")
	}
	r.do("SADD", r.keys.Queues(), "mail")
	r.do("LPUSH", r.keys.Queue("mail"), secret, "unreadable S3cr3tCanary")
	r.do("LPUSH", r.keys.Quarantine("mail"), secret)
	r.periodic("mail", secret)
	r.do("HSET", r.keys.Iteration("j2"), lua.FieldState, "done", lua.FieldResult, `"S3cr3tCanary"`, lua.FieldProgress, "3/4",
		lua.FieldJob, strings.Replace(secret, "j1", "j2", 1))
	completed := r.get("/job?jid=j2").body
	require.Contains(t, completed, "3 of 4")
	require.Equal(t, 3, strings.Count(completed, "16 bytes of Card"), "the args, those in the payload, and the result")
	require.NotContains(t, completed, "S3cr3tCanary")
	require.Contains(t, r.get("/history?name=mail").body, "16 bytes of Card")
	for _, path := range append(r.pagesOf("mail"), "/job?jid=j1", "/job?jid=j1&in=dead") {
		require.NotContains(t, r.get(path).body, "S3cr3tCanary", path)
	}
	require.Contains(t, r.get("/dead").body, "16 bytes of Card")
	require.Contains(t, r.get("/job?jid=j1").body, "16 bytes of Card")
	unreadable := idOfUnreadable.FindString(r.get("/dead").body)
	require.NotEmpty(t, unreadable)
	require.NotContains(t, r.get("/job?jid="+unreadable).body, "S3cr3tCanary")
	require.Contains(t, r.get("/dead?class=Card").body, "16 bytes of Card")
	for _, path := range []string{"/dead?text=S3cr3t", "/queue?name=mail&text=S3cr3t", "/confirm?in=dead&do=delete&text=S3cr3t"} {
		body := r.get(path).body
		require.NotContains(t, body, "16 bytes of Card", "a match would tell what the args are: %s", path)
		require.NotContains(t, body, "unreadable-", path)
		require.NotContains(t, body, "Delete 1", path)
	}
	r.post("/act", "in", "dead", "do", "delete", "all", "1", "text", "S3cr3t")
	require.Equal(t, 2, r.size("ZCARD", r.keys.Dead()))
}

func TestAnEncryptedArgumentIsShownByTheNameOfItsKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.do("ZADD", r.keys.Dead(), "1", `{"class":"Card","args":[7,"belay:enc:1:last:k1:c1phert3xt"],"jid":"j1","queue":"mail","encrypt":true}`)
	for _, path := range []string{"/dead", "/job?jid=j1", "/dead?class=Card"} {
		body := r.get(path).body
		require.Contains(t, body, "[encrypted, key k1]", path)
		require.NotContains(t, body, "c1phert3xt", path)
	}
	require.NotContains(t, r.get("/dead?text=c1phert3xt").body, "[encrypted")
}

// A search may read every job. A page that is open must not repeat it every few seconds.
func TestARefreshOfAJobsPageSearchesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.failed(r.keys.Dead(), 3)
	page := r.get("/job?jid=jid000001").body
	self := selfOf.FindStringSubmatch(page)
	require.NotNil(t, self, "a job that was found has an address that is read without a search")
	refresh := func() answer {
		return r.ask(r.dash, "GET", "/"+html.UnescapeString(self[1]), "", "X-Belay-Refresh", "1")
	}
	require.Contains(t, refresh().body, "no such host")
	require.Equal(t, http.StatusSeeOther, r.post("/act", "in", "dead", "do", "retry", "id", "jid000001").status)
	require.Contains(t, refresh().body, "The job has left the dead set.")
	require.Contains(t, r.get("/"+html.UnescapeString(self[1])).body, "waiting", "without the script it is searched")
}

var selfOf = regexp.MustCompile(`data-self="([^"]+)"`)

func TestASearchIsASeriesOfShortPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	const all = 3000
	r.failed(r.keys.Dead(), all-2)
	// Where a search ends: by class with the job that died first, by jid with the one that died last.
	r.do("ZADD", r.keys.Dead(), "1", payload("first", "Rare"))
	r.do("ZADD", r.keys.Dead(), "9999999999", payload("last", "Report"))
	// through follows a search to its last page.
	through := func(path string) (last string, pages int) {
		for pages = 1; ; pages++ {
			got := r.get(path)
			require.Equal(t, http.StatusOK, got.status)
			form := continuing(got.body)
			if form == nil {
				return got.body, pages
			}
			page, _, _ := strings.Cut(path, "?")
			path = page + "?" + encode(form...)
			require.Less(t, pages, 100)
		}
	}
	r.dash.searchTime = time.Nanosecond
	for path, want := range map[string]string{
		"/job?jid=last":                          "no such host",
		"/job?jid=nowhere":                       "3,000 entries were searched",
		"/dead?class=Rare":                       "3,000 entries",
		"/confirm?in=dead&do=retry&class=Rare":   "Retry 1 job of the dead set",
		"/confirm?in=dead&do=retry&class=Report": "Retry 2,999 jobs of the dead set",
	} {
		body, pages := through(path)
		require.Greater(t, pages, 1, path)
		require.Contains(t, body, want, path)
		body, pages = through(path + "&patient=1")
		require.Equal(t, 1, pages, "someone without scripts need not press often: %s", path)
		require.Contains(t, body, want, path)
	}
}

// A page that cannot be rendered is a bug of the dashboard, and no refusal by Redis.
func TestAPageThatCannotBeRenderedIsAFailureOfTheDashboard(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.dash.routes["/reset"] = route{get: func(d *Dashboard, v *visit) error { return d.show(v, "set", page{Body: "no set"}) }}
	got := r.get("/reset")
	require.Equal(t, http.StatusInternalServerError, got.status)
	require.Contains(t, got.body, "The dashboard failed; its log has the reason.")
	require.Contains(t, r.log.String(), "dashboard page cannot be rendered")
}
