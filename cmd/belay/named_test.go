package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDryRunsOfActsOnNamesShowWhatIsThereAndChangeNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.do("HSET", h.key("belay:limits"), "webhooks", "5 window 100 60000 code 1700000000")
	h.do("HSET", h.key("belay:gates"), "webhooks:acme\nr", "4")
	h.wait("webhooks:acme", "mail", deadJob("A", "1"))
	id := strings.TrimSpace(h.invoke("", "batches", "new").out)
	require.Zero(t, h.invoke("", "classes", "limit", "B", "5").code)
	seen := func() []any {
		return []any{
			h.do("HGETALL", h.key("belay:limits")), h.do("HGETALL", h.key("belay:gates")), h.do("HGETALL", h.key("belay:classes")),
			h.invoke("", "batches", "show", id, "--json").code, h.do("ZCARD", h.key("belay:batches")),
		}
	}
	before := seen()
	for line, out := range map[string]string{
		"limits set webhooks --concurrency 9": "webhooks: would have concurrency 9, rate 100/1m; it was not set\n",
		"limits set new --rate 1/1s":          "new: would have concurrency -, rate 1/1s; it was not set\n",
		"limits reset webhooks":               "webhooks: concurrency 5, rate 100/1m, source code, 4 running, 1 waiting; it was not reset\n",
		"limits reset webhooks:acme":          "webhooks:acme: 4 running (there are 0), 0 admitted (there are 0); it was not reset\n",
		"limits remove webhooks":              "webhooks: concurrency 5, rate 100/1m, source code, 4 running, 1 waiting; it was not removed\n",
		"classes pause B":                     "B: rule limit 5, 0 running, 0 waiting; it was not paused\n",
		"classes drop C":                      "C: no rule; it was not dropped\n",
		"classes limit B 6":                   "B: rule limit 5, 0 running, 0 waiting; it was not limited\n",
		"classes resume B":                    "B: rule limit 5, 0 running, 0 waiting; it was not resumed\n",
		"batches seal " + id:                  id + ": open, 0 in all, 0 pending, 0 failed, 0 dead, 0 removed; it was not sealed\n",
		"batches delete " + id:                id + ": open, 0 in all, 0 pending, 0 failed, 0 dead, 0 removed; it was not deleted\n",
		"batches invalidate " + id:            id + ": open, 0 in all, 0 pending, 0 failed, 0 dead, 0 removed; it was not invalidated\n",
	} {
		require.Equal(t, said{out: out}, h.invoke("", append(strings.Fields(line), "--dry-run")...), line)
	}
	require.Equal(t, before, seen())
	for line, code := range map[string]int{
		"limits reset other": exitAbsent, "limits remove other": exitAbsent, "classes resume none": exitAbsent, "batches seal none": exitAbsent,
		"limits set webhooks": exitUsage, "limits set webhooks --rate often": exitUsage, "classes limit B 0": exitUsage,
		"limits remove class.B": exitFailure,
	} {
		require.Equal(t, code, h.invoke("", append(strings.Fields(line), "--dry-run")...).code, line)
	}
}
