package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/belayq/belay/lua"
)

// hostile are texts that some page of some dashboard once executed, or was deceived by. Each contains attack,
// which marks where it ends up.
var hostile = []string{
	`<script>attack()</script>`, `"><img src=x onerror=attack()>`, `'><svg onload=attack()>`, `javascript:attack()`, `{{7*7}}attack`,
	`</script><script>attack()</script>`, `</title><script>attack()</script>`, `</textarea></pre></code><b id=attack>`,
	"attack\u2028alert(1)\u2029", "attack\u202egnp.exe\u2066", "attack\x01\x1b[31m\x7f", "attack\u200b\ufeff\u200d", "attack\r\nSet-Cookie: a=b",
	`<svg><style>@import "//attack"</style></svg>`, `" autofocus onfocus=attack() x="`, `../../attack`, `%2e%2e/attack%00`, `attack&lt;b&gt;`,
	"`${attack()}`", `attack" data-fresh id="nav`, strings.Repeat("attack ", 3000), strings.Repeat("attack", 3000),
}

// plant puts a text into every field that a program, or an attacker who reaches Redis, can fill.
func (r *rig) plant(text string) {
	r.Helper()
	quote := func(s string) string {
		out, err := json.Marshal(s)
		require.NoError(r, err)
		return string(out)
	}
	evil := quote(text)
	job := func(jid string) string {
		return fmt.Sprintf(`{"class":%s,"args":[%s,{%s:%s}],"jid":%s,"queue":%s,"retry":true,"retry_count":1,"created_at":1700000000.5,`+
			`"failed_at":1700000000.5,"error_class":%s,"error_message":%s,"tags":[%s],"wrapped":%s}`,
			evil, evil, evil, evil, quote(jid), evil, evil, evil, evil, evil)
	}
	for n, set := range []string{r.keys.Schedule(), r.keys.Retry(), r.keys.Dead()} {
		r.do("ZADD", set, fmt.Sprint(1e9+n), job(text))
		r.do("ZADD", set, fmt.Sprint(2e9+n), "not a job "+text)
		r.do("ZADD", set, fmt.Sprint(3e9+n), job("plain"))
	}
	r.do("SADD", r.keys.Queues(), text, "mail")
	for _, queue := range []string{text, "mail"} {
		r.do("LPUSH", r.keys.Queue(queue), job(text), "not a job "+text)
		r.do("LPUSH", r.keys.Quarantine(queue), job(text))
	}
	identity := "host:1:" + text
	now := float64(time.Now().UnixMilli()) / 1000
	r.do("SADD", r.keys.Processes(), identity)
	r.do("ZADD", r.keys.Alive(), fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), identity)
	r.do("HSET", r.keys.Process(identity), "info", fmt.Sprintf(
		`{"hostname":%s,"pid":1,"tag":%s,"labels":[%s],"version":%s,"queues":[%s],"concurrency":5,"started_at":%f,`+
			`"capsules":{%s:{"concurrency":5,"mode":%s,"weights":{%s:1}},"other":{}}}`,
		evil, evil, evil, evil, evil, now, evil, evil, evil), "busy", "1", "beat", fmt.Sprint(now), "quiet", "false", "rss", "1")
	r.do("HSET", r.keys.Work(identity), text, fmt.Sprintf(`{"queue":%s,"run_at":%d,"payload":%s}`, evil, int64(now), quote(job(text))))
	r.do("ZADD", r.keys.Unique(), fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), text)
	r.do("SET", r.keys.Lock(text), "not a lock "+text, "PX", "3600000")
	r.do("SET", r.keys.Processed(), text)
	r.do("HSET", r.keys.Iteration("tracked"), lua.FieldState, text, lua.FieldProgress, text, lua.FieldNoResult, text, lua.FieldJob, job("tracked"))
	r.periodic(text, job(text))
	r.do("LPUSH", r.keys.PeriodicRuns(text), "- 1700000000000 "+text+" "+text, text)
	r.do("HSET", r.keys.PeriodicDefinitions(), text+"2", "digest schedule 0 "+text+"\nnot a definition "+text)
	r.do("ZADD", r.keys.Periodic(), "1", text+"2")
	for _, key := range []string{r.keys.ClassMinute(time.Now()), r.keys.ClassMinute(time.Now().Add(-time.Minute))} {
		r.do("HSET", key, text+"|p", "3", text+"|f", "1", text+"|ms", "5")
	}
}

// pagesOf returns addresses of all pages, with a text in every parameter.
func (r *rig) pagesOf(text string) (paths []string) {
	query := func(pairs ...string) string { return encode(pairs...) }
	for path, route := range r.dash.routes {
		if route.get != nil && !strings.HasPrefix(path, "/assets/") {
			paths = append(paths, path, path+"?"+query("name", text, "jid", text, "class", text, "queue", text, "range", text, "sort", text,
				"window", text, "page", text, "rows", text, "after", text, "in", text, "do", text, "ref", text, "text", text))
		}
	}
	for _, in := range []string{"retries", "scheduled", "dead"} {
		paths = append(paths, "/"+in+"?"+query("class", text), "/"+in+"?"+query("text", "attack"), "/confirm?"+query("in", in, "do", "delete", "class", text),
			"/confirm?"+query("in", in, "do", "retry", "text", text), "/job?"+query("jid", text, "in", in), "/job?"+query("jid", "plain", "in", in))
	}
	return append(paths, "/queue?"+query("name", text), "/queue?"+query("name", "mail"), "/queue?"+query("name", "mail", "text", "attack"),
		"/confirm?"+query("in", "queue", "queue", text, "do", "move"), "/confirm?"+query("in", "quarantined", "queue", text, "do", "kill"),
		"/job?"+query("jid", text), "/job?jid=tracked", "/queue?"+query("name", "no such "+text), "/"+strings.ReplaceAll(query(text, text), "+", "%20"))
}

func TestHostileTextsAreShownAndNeverObeyed(t *testing.T) {
	t.Parallel()
	for n, text := range hostile {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Config{})
			r.plant(text)
			shown := 0
			for _, path := range r.pagesOf(text) {
				r.dash.stale()
				got := r.get(path)
				require.NotEqual(t, http.StatusInternalServerError, got.status, "%s: %s", path, got.body)
				requireHarmless(t, path, got)
				shown += strings.Count(got.body, "attack")
			}
			require.Greater(t, shown, 100, "the text is shown")
			form := []string{"in", "dead", "do", "delete", "id", text, "name", text, "digest", text, "process", text, "to", text, "queue", text,
				"jid", text, "ref", "1:" + text}
			for path, route := range r.dash.routes {
				if route.post == nil {
					continue
				}
				for _, do := range []string{"delete", "pause", "stop", "move", "run", "remove"} {
					form[3] = do
					got := r.post(path, form...)
					requireHarmless(t, path, got)
					if got.status == http.StatusSeeOther {
						requireHarmless(t, path+" followed", r.follow(got))
					}
				}
			}
		})
	}
}

// The elements and attributes that templates use. No other may appear, whatever is in Redis.
var (
	knownElements = strings.Fields(`html head meta title link script body a header nav ul ol li b div p button i span main h1 h2 form label input
		section dl dt dd small meter figure noscript table thead tbody tr th td strong code time details summary pre progress datalist option
		select svg path rect polyline br wbr`)
	knownAttributes = strings.Fields(`lang charset name content rel href type src defer class id hidden aria-label aria-pressed aria-current aria-hidden
		data-fresh data-keep data-self data-live data-pause data-theme-switch data-key data-label data-rate data-plots data-plot data-ask data-title data-text
		data-selected data-copy data-check-all data-continue viewbox width height d x y rx points preserveaspectratio role tabindex for action method
		placeholder value autocomplete spellcheck maxlength required min max colspan rowspan datetime title list checked
		formaction`)
)

// requireHarmless parses an answer as a browser does.
func requireHarmless(t *testing.T, path string, got answer) {
	t.Helper()
	for name, values := range got.head {
		for _, value := range values {
			require.NotContains(t, value, "\n", "%s: header %s", path, name)
		}
	}
	require.Empty(t, got.head.Get("A"))
	kind := got.head.Get("Content-Type")
	if strings.HasPrefix(kind, "application/json") {
		require.True(t, json.Valid([]byte(got.body)))
		require.NotContains(t, got.body, "<", "a browser that takes it for HTML finds no element")
		requireVisible(t, path, got.body)
		return
	}
	if got.body == "" || strings.HasPrefix(kind, "text/plain") {
		return
	}
	require.Equal(t, "text/html; charset=utf-8", kind, path)
	tokens := html.NewTokenizer(strings.NewReader(got.body))
	for {
		kind := tokens.Next()
		if kind == html.ErrorToken {
			require.ErrorIs(t, tokens.Err(), io.EOF)
			break
		}
		token := tokens.Token()
		switch kind {
		case html.TextToken:
			requireVisible(t, path, token.Data)
		case html.StartTagToken, html.SelfClosingTagToken:
			require.Contains(t, knownElements, token.Data, path)
			if token.Data == "script" {
				require.Equal(t, html.EndTagToken, tokens.Next(), "%s: a script has no text", path)
			}
			for _, a := range token.Attr {
				require.Contains(t, knownAttributes, strings.ToLower(a.Key), "%s in %s", path, token.Data)
				if a.Key == "href" || a.Key == "src" || a.Key == "action" || a.Key == "formaction" || a.Key == "data-self" {
					require.Regexp(t, address, a.Val, path)
				}
			}
		}
	}
}

// address is what links lead to: a page of this handler.
var address = regexp.MustCompile(`^(\.\./)*(\./)?(|[a-z]+(\.json)?|#main|assets/[\w./-]+)(\?[^\s<>"]*)?$`)

// requireVisible requires that a text has no character that is not seen or changes how others are seen.
func requireVisible(t *testing.T, path, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) {
			require.Failf(t, "an invisible character", "%s: %U in %.100q", path, r, text)
		}
	}
}

func TestPagesHaveNoInlineScriptOrStyle(t *testing.T) {
	t.Parallel()
	entries, err := templateFiles.ReadDir("templates")
	require.NoError(t, err)
	require.Greater(t, len(entries), 8)
	inline := regexp.MustCompile(`(?i)<style|<script(?:>|[^>]*>[^<])|\sstyle=|\son[a-z]+=|javascript:|<base|<iframe|<object|<embed`)
	for _, entry := range entries {
		text, err := templateFiles.ReadFile("templates/" + entry.Name())
		require.NoError(t, err)
		require.NotRegexp(t, inline, string(text), entry.Name())
	}
	for name, file := range assets {
		if strings.HasSuffix(name, ".js") {
			require.NotRegexp(t, `\beval\(|new Function\(|document\.write`, string(file.content), name)
		}
	}
	for _, own := range []string{"live.js", "plots.js", "theme.js"} {
		require.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML`, string(assets[own].content), own)
	}
}

func TestDeceivingCharactersAreSpelledOut(t *testing.T) {
	t.Parallel()
	for text, expected := range map[string]string{
		"abc é 漢字 😀":            "abc é 漢字 😀",
		"a\u202eb":              `a<span class="esc">\u202e</span>b`,
		"a\x00b":                `a<span class="esc">\x00</span>b`,
		"a\xffb":                `a<span class="esc">\xff</span>b`,
		"<b>\u2028":             `&lt;b&gt;<span class="esc">\u2028</span>`,
		"tab\tand\nline":        `tab<span class="esc">\t</span>and<span class="esc">\n</span>line`,
		"zero\u200bwidth\ufeff": `zero<span class="esc">\u200b</span>width<span class="esc">\ufeff</span>`,
	} {
		require.Equal(t, expected, string(shown(text)))
	}
	require.Equal(t, "tab\tand\nline", string(shownLines("tab\tand\nline")))
	require.Equal(t, `a\u202eb`, plain("a\u202eb"))
	require.Equal(t, `A::<wbr>B&lt;<span class="esc">\u202e</span>`, string(shownClass("A::B<\u202e")))
}

func TestArgumentsBreakBetweenTheirValues(t *testing.T) {
	t.Parallel()
	for args, expected := range map[string]string{
		``: ``, `1`: `1`, `1,"a@b.example"`: `1, "a@b.example"`, `{"a":[1,2],"b":{}},[]`: `{"a": [1, 2], "b": {}}, []`,
		`"no, change\nwithin: {a,b} \\n"`: `"no, change\nwithin: {a,b} \\n"`, `masked, not JSON`: `masked, not JSON`, `] [`: `] [`,
	} {
		require.Equal(t, expected, spaced(args))
	}
	long := strings.Repeat(`1,`, 10*maxRowArgs)
	require.Equal(t, long, spaced(long))
}
