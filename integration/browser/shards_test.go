package browser

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// The overview has the sums of all shards, and each other page is that of the shard that is chosen at its top. A
// shard that is away leaves the sums and the pages of the others.
func TestAShardIsChosen(t *testing.T) {
	t.Parallel()
	a, b := newSite(t), newSite(t)
	for n, s := range []*site{a, b} {
		s.do("SADD", s.keys.Queues(), "mail")
		s.do("SET", s.keys.Processed(), []string{"10", "11"}[n])
		s.do("ZADD", s.keys.Dead(), "1700000000", `{"class":"`+[]string{"OnA", "OnB"}[n]+`","args":[],"jid":"j","queue":"mail"}`)
	}
	_, at := a.serve("a="+a.redis.URL()+" b="+b.redis.URL(), drivertest.FreeAddr(t))
	p := &press{newTab(t), a, at, map[string]bool{}}
	processed := `[...document.querySelectorAll("dt")].find(term => term.textContent === "Processed").nextElementSibling.textContent`
	links := `[...document.querySelectorAll("a")]`
	p.open(at)
	require.Equal(t, "21", eval[string](p.tab, processed))
	for _, shard := range []struct{ name, class string }{{"a", "OnA"}, {"b", "OnB"}} {
		p.open(at + "dead")
		p.send(links + `.find(link => link.textContent === "` + shard.name + `")`)
		p.until("the jobs of the shard", `document.querySelector("form.jobs tbody strong")?.textContent === "`+shard.class+`"`)
	}
	require.Empty(t, p.takeProblems())

	b.redis.Kill()
	p.open(at)
	p.until("the sum of the others", processed+` === "10"`)
	p.takeProblems()
	p.open(at + "shard=a/dead")
	p.until("the jobs of the other shard", `document.querySelector("form.jobs tbody strong")?.textContent === "OnA"`)
	require.Empty(t, p.takeProblems())
}
