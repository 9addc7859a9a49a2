package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/lua"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// A rig is a dashboard over a keyspace of its own on a real Redis.
type rig struct {
	*testing.T
	redis  *drivertest.Server
	client driver.Client
	prefix string
	keys   lua.Keys
	dash   *Dashboard
	log    *drivertest.Buffer
}

// slow is how long a step or a search may take: on a busy machine, too, it ends because it is complete.
const slow = time.Minute

func newRig(t *testing.T, cfg Config) *rig {
	t.Helper()
	r := &rig{T: t, redis: drivertest.Redis(t), log: &drivertest.Buffer{}}
	r.prefix = strings.TrimSuffix(drivertest.Prefix(t), ":")
	cfg.Logger = slog.New(slog.NewJSONHandler(r.log, nil))
	redis, err := goredisdriver.Open(r.redis.URL())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, redis.Close()) })
	r.client, r.keys = redis, lua.NewKeys(r.prefix)
	r.dash = r.dashboard(redis, cfg)
	return r
}

// dashboard returns a Dashboard of the rig's keyspace over a driver.
func (r *rig) dashboard(redis driver.Client, cfg Config) *Dashboard {
	r.Helper()
	c, err := client.New(redis, client.Config{Prefix: r.prefix})
	require.NoError(r, err)
	dash, err := New(c, cfg)
	require.NoError(r, err)
	r.Cleanup(func() { require.NoError(r, dash.Close()) })
	dash.stepTime, dash.searchTime, dash.patientTime = slow, slow, slow
	return dash
}

func (r *rig) do(words ...string) any {
	r.Helper()
	value, err := r.redis.Do(context.Background(), words...)
	require.NoError(r, err)
	return value
}

// An answer is what a request got.
type answer struct {
	status int
	head   http.Header
	body   string
}

// ask sends a request whose headers are pairs.
func (r *rig) ask(handler http.Handler, method, path, body string, headers ...string) answer {
	r.Helper()
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for n := 0; n < len(headers); n += 2 {
		if headers[n] == "Host" {
			request.Host = headers[n+1]
			continue
		}
		request.Header.Set(headers[n], headers[n+1])
	}
	recorded := httptest.NewRecorder()
	handler.ServeHTTP(recorded, request)
	text, err := io.ReadAll(recorded.Result().Body)
	require.NoError(r, err)
	return answer{recorded.Code, recorded.Header(), string(text)}
}

func (r *rig) get(path string) answer {
	r.Helper()
	return r.ask(r.dash, http.MethodGet, path, "")
}

// post sends a form of pairs, as a page of the dashboard does.
func (r *rig) post(path string, pairs ...string) answer {
	r.Helper()
	r.dash.stale()
	return r.ask(r.dash, http.MethodPost, path, encode(pairs...), "Sec-Fetch-Site", "same-origin")
}

// follow follows the redirect of an act and returns the page, with the answer of the act.
func (r *rig) follow(a answer) answer {
	r.Helper()
	require.Equal(r, http.StatusSeeOther, a.status, a.body)
	r.dash.stale()
	location := a.head.Get("Location")
	if location == "./" {
		location = ""
	}
	cookie, _, _ := strings.Cut(a.head.Get("Set-Cookie"), ";")
	return r.ask(r.dash, http.MethodGet, "/"+location, "", "Cookie", cookie)
}

// failed puts n jobs into a set.
func (r *rig) failed(set string, n int) {
	r.Helper()
	for from := 0; from < n; from += 500 {
		words := []string{"ZADD", set}
		for i := from; i < min(from+500, n); i++ {
			words = append(words, fmt.Sprint(4e9+float64(i)), payload(fmt.Sprintf("jid%06d", i), "Report"))
		}
		r.do(words...)
	}
}

func payload(jid, class string) string {
	return fmt.Sprintf(`{"class":%q,"args":[1,"two"],"jid":%q,"queue":"mail","retry":true,"retry_count":2,"created_at":1700000000.5,`+
		`"enqueued_at":1700000001.5,"failed_at":1700000002.5,"error_class":"RuntimeError","error_message":"no such host"}`, class, jid)
}

// digest returns all keys and values of the rig's keyspace.
func (r *rig) digest() string {
	r.Helper()
	names, _ := r.do("KEYS", r.keys.Queues()[:len(r.keys.Queues())-len("queues")]+"*").([]any)
	slices.SortFunc(names, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	var out bytes.Buffer
	for _, name := range names {
		fmt.Fprintf(&out, "%v %v\n", name, r.do("DUMP", fmt.Sprint(name)))
	}
	return out.String()
}

// encode returns pairs as a query.
func encode(pairs ...string) string {
	form := url.Values{}
	for n := 0; n < len(pairs); n += 2 {
		form.Add(pairs[n], pairs[n+1])
	}
	return form.Encode()
}
