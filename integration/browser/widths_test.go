package browser

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/lua"
)

// widths are those of phones, tablets, laptops and desks.
var widths = []int64{360, 600, 768, 1024, 1280, 1600}

// Names as long as large programs have them, and one without a place to break it.
const (
	longQueue = "customer_notifications_transactional_high_priority"
	longClass = "Billing::Invoices::ImportFromSpreadsheetAndNotifyAccountOwnersJob"
	longName  = "worker-notifications-7d9f8b6c5d-x2x9q.eu-central-1.compute.internal.example.com"
	unbroken  = "ImportEverySpreadsheetOfTheAccountAndNotifyItsOwnersByMailWorker"
)

// No page scrolls sideways, and no text is cut off, at any width and with long names.
func TestPagesFitEveryWidth(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill("queue", longQueue, 30)
	s.fill("quarantined", longQueue, 3)
	for _, in := range []string{"retries", "scheduled", "dead"} {
		s.fill(in, "", 30)
	}
	now := time.Now().Unix()
	for n, key := range []string{s.keys.Retry(), s.keys.Schedule(), s.keys.Dead()} {
		for m, class := range []string{longClass, unbroken} {
			s.do("ZADD", key, fmt.Sprint(now+int64(3600*(2-n))), fmt.Sprintf(`{"class":%q,"args":[%q,{"%s":1}],"jid":"wide%d%d%024x","queue":%q,"retry":true,`+
				`"created_at":1700000000.5,"enqueued_at":1700000000.5,"failed_at":1700000000.5,"retry_count":12,"error_class":"ActiveRecord::%sError",`+
				`"error_message":"%s"}`, class, strings.Repeat("word ", 40), unbroken, n, m, 1, longQueue, unbroken, strings.Repeat("x", 300)))
		}
	}
	for n, class := range []string{longClass, unbroken} {
		jid := fmt.Sprintf("ended%019x", n)
		s.do("ZADD", s.keys.Completed(), fmt.Sprint(now-int64(n)), jid)
		s.do("HSET", s.keys.Iteration(jid), lua.FieldState, []string{"done", "discarded"}[n], lua.FieldEndedAt, fmt.Sprint(1000*now), lua.FieldBeganAt, fmt.Sprint(1000*now-3723004),
			lua.FieldResult, `{"`+unbroken+`":"`+strings.Repeat("x", 300)+`"}`, lua.FieldErrorClass, unbroken, lua.FieldErrorMessage, strings.Repeat("word ", 60),
			lua.FieldJob, fmt.Sprintf(`{"class":%q,"args":[%q],"jid":%q,"queue":%q,"retry":true,"created_at":1700000000.5}`, class, unbroken, jid, longQueue))
	}
	s.belay("push", longClass, "1", "-q", longQueue, "--unique", "until_executed", "--unique-ttl", "2h")
	for _, name := range []string{unbroken, "nightly"} {
		s.belay("periodic", "add", name, "*/5 9-17 * * 1-5", longClass, "-q", longQueue, "--zone", "America/Argentina/Buenos_Aires")
	}
	s.start("work", "--redis", s.redis.URL(), "-q", "live", "-q", "a_further_queue_with_a_long_name", "-c", "3", "--name", longName,
		"--shutdown-timeout", "0s", "--exec", longClass+"=true", "--exec", unbroken+"=sleep 3600")
	eventually(t, "the worker", func() bool { return s.process(longName) != nil })
	s.belay("push", unbroken, "-q", "live")
	for n := range 20 {
		s.belay("push", longClass, fmt.Sprint(n), "-q", "live")
	}
	eventually(t, "runs", func() bool { return s.status().Processed >= 20 })
	id := strings.Repeat("import", 11)[:64]
	s.belay("batches", "new", "--id", id, "--description", unbroken+" "+strings.Repeat("word ", 40), "--on-success", unbroken, "-q", longQueue)
	s.nest("nested", id)
	s.belay("push", unbroken, "--batch", id, "--jid", strings.Repeat("row", 30), "-q", longQueue)
	s.do("SADD", s.keys.BatchFailed(id), strings.Repeat("row", 30))
	s.belay("limits", "set", id, "--concurrency", "0", "--rate", "leaky:1000000/43200s")
	for n, key := range []string{unbroken, strings.Repeat("word ", 40)} {
		s.do("LPUSH", s.keys.WaitingList(id+":"+key), longQueue+"\n"+fmt.Sprintf(
			`{"class":%q,"args":[%q],"jid":"waits%d%020x","queue":%q,"enqueued_at":1700000000.5}`, longClass, unbroken, n, 1, longQueue))
		s.do("ZADD", s.keys.Waiting(), "1", id+":"+key)
		s.do("HSET", s.keys.Gates(), id+":"+key+"\nr", "1234567")
		s.do("SET", s.keys.Stop(id+":"+key), "", "PX", "36000000")
	}
	_, first := s.serve(s.redis.URL(), drivertest.FreeAddr(t))
	b := newTab(t)
	b.open(first + "classes")
	eventually(t, "counts by class", func() bool {
		b.open(first + "classes")
		return eval[int](b, "document.querySelectorAll('tbody tr').length") > 0
	})
	var problems []string
	for _, page := range []string{
		"", "busy", "queues", "queue?name=" + longQueue, "scheduled", "retries", "dead", "completed", "periodic", "classes", "locks", "redis",
		"job?jid=" + fmt.Sprintf("wide20%024x", 1), "batches", "batch?bid=" + id, "batch?bid=nested", "limits?check=1", "limit?name=" + id,
		"limit?" + url.Values{"name": {id}, "key": {unbroken}}.Encode(), fmt.Sprintf("job?jid=waits0%020x", 1), "job?jid=" + strings.Repeat("row", 30),
		"history?name=" + url.QueryEscape(unbroken), "confirm?in=dead&do=retry",
	} {
		for _, width := range widths {
			b.size(width)
			b.open(first + page)
			name := nameOf(fmt.Sprintf("wide %s %d", strings.TrimSuffix(page, "name="+longQueue), width))
			for _, check := range []string{"wide", "cut", "outside", "torn"} {
				for _, problem := range eval[[]string](b, "testing."+check+"()") {
					problems = append(problems, name+": "+check+": "+problem)
				}
			}
			if scrolled := eval[int](b, "Math.round(scrollX)"); scrolled != 0 {
				problems = append(problems, fmt.Sprintf("%s: opens %d px to the right", name, scrolled))
			}
			b.picture(name)
		}
	}
	require.Empty(t, strings.Join(problems, "\n"))
	require.Empty(t, b.takeProblems())
}

// The buttons that act on all jobs stay together at the right, and the filter's button stays beside its fields.
func TestButtonsThatBelongTogetherStandTogether(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill("retries", "", 30)
	s.fill("scheduled", "", 30)
	s.fill("queue", "mail", 3)
	_, first := s.serve(s.redis.URL(), drivertest.FreeAddr(t))
	b := newTab(t)
	for _, width := range []int64{1280, 1440, 1600} {
		b.size(width)
		for _, page := range []string{"retries", "scheduled", "retries?class=Nothing"} {
			b.open(first + page)
			rows := func(of string) []int { // the tops of elements, each once
				return eval[[]int](b, fmt.Sprintf(`[...new Set([...document.querySelectorAll(%q)].map(node => Math.round(node.getBoundingClientRect().top)))]`, of))
			}
			if !strings.Contains(page, "?") {
				require.Len(t, rows("a.button[href^=confirm]"), 1, "the buttons of %s at %d", page, width)
				require.Less(t, eval[float64](b, `(boxes => boxes.at(-1).closest(".jobs").getBoundingClientRect().right - boxes.at(-1).getBoundingClientRect().right)([...document.querySelectorAll("a.button[href^=confirm]")])`),
					2.0, "the buttons of %s at %d stand at the right", page, width)
			}
			require.Len(t, rows("#filter button, #filter input:not([type=hidden])"), 1, "the filter of %s at %d", page, width)
			b.picture(fmt.Sprintf("together-%s-%d", nameOf(page), width))
		}
	}
	b.size(600)
	b.open(first + "queues")
	require.Equal(t, "left", eval[string](b, `getComputedStyle(document.querySelector(".list.queues td.num")).textAlign`))
	require.Greater(t, eval[float64](b, `document.querySelector(".list.queues td.num").getBoundingClientRect().width`), 150.0, "a figure of a card has its width")
	b.picture("together-cards")
}
