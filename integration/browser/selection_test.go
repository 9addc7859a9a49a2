package browser

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// Rows of one jid: a job that was pushed twice, or that an operator ran again while it waited for a retry.
func TestASelectionStaysWithItsJob(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, at := s.serve(s.redis.URL(), drivertest.FreeAddr(t))
	p := &press{newTab(t), s, at, map[string]bool{}}
	s.do("SADD", s.keys.Queues(), "mail")
	twin := func(class string) string {
		return fmt.Sprintf(`{"class":%q,"args":[],"jid":"twin","queue":"mail","retry":true}`, class)
	}
	old, young, third := twin("Old"), twin("Young"), twin("Third")
	// rows are the classes on the page, with a star at those that are checked.
	rows := func() []string {
		return eval[[]string](p.tab, `[...document.querySelectorAll("form.jobs tbody tr[data-key]")].map(row =>
			row.querySelector("strong").textContent + (row.querySelector("input[name=ref]").checked ? "*" : ""))`)
	}
	check := func(class string) {
		p.click(fmt.Sprintf(`[...document.querySelectorAll("form.jobs tbody tr")].find(row => row.querySelector("strong").textContent === %q)
			.querySelector("input[name=ref]")`, class))
	}
	refresh := func() {
		eval[bool](p.tab, `(window.refreshed = false, document.addEventListener("belay:fresh", () => { window.refreshed = true }, { once: true }),
			document.dispatchEvent(new Event("visibilitychange")))`)
		p.until("a refresh", "window.refreshed")
	}

	for _, chosen := range []string{"Old", "Young"} {
		s.do("DEL", s.keys.Dead())
		s.do("ZADD", s.keys.Dead(), "1700000000", old, "1700000060", young, "1700000060", third)
		p.open(at + "dead")
		require.Equal(t, []string{"Young", "Third", "Old"}, rows())
		check(chosen)
		refresh()
		want := []string{"Young", "Third", "Old"}
		want[slices.Index(want, chosen)] += "*"
		require.Equal(t, want, rows(), "no row is gone, and no other is checked")
		p.send(button("#jobs-dead", "delete"))
		p.said("Deleted: 1 job.")
		left := slices.DeleteFunc([]any{old, young, third}, func(payload any) bool { return payload == twin(chosen) })
		require.ElementsMatch(t, left, s.do("ZRANGE", s.keys.Dead(), "0", "-1"), "the deleted job is the selected one")
	}

	s.do("ZADD", s.keys.Retry(), "9000000000", old, "9000000060", young)
	p.open(at + "retries")
	check("Old")
	s.do("ZADD", s.keys.Retry(), "9000000120", old)
	refresh()
	require.Equal(t, []string{"Young", "Old"}, rows(), "a job that was postponed is not the row that was selected")

	s.do("LPUSH", s.keys.Queue("mail"), old, young, young, third)
	p.open(at + "queue?name=mail")
	check("Third")
	refresh()
	require.Equal(t, []string{"Old", "Young", "Young", "Third*"}, rows())
	s.do("RPOP", s.keys.Queue("mail"))
	refresh()
	require.Equal(t, []string{"Young", "Young", "Third*"}, rows(), "the selection moves up with its job")
	s.do("RPOP", s.keys.Queue("mail"))
	p.send(button("#jobs-queue", "delete"))
	p.said("Deleted: 1 job.")
	require.Equal(t, []any{young}, s.do("LRANGE", s.keys.Queue("mail"), "0", "-1"))
	require.Empty(t, p.takeProblems())
}
