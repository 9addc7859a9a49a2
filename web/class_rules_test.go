package web

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
)

func TestClassesHaveRules(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	page := r.get("/classes").body
	for _, act := range []string{"pause", "limit", "drop"} {
		require.Contains(t, page, `name="do" value="`+act+`"`)
	}
	require.NotContains(t, page, `value="resume"`)
	act := func(fields ...string) string { return r.follow(r.post("/classes", fields...)).body }
	page = act("do", "pause", "class", "<b>Reports::Daily")
	require.Contains(t, page, "&lt;b&gt;Reports::Daily is paused.")
	require.Contains(t, page, `value="resume"`)
	require.Contains(t, page, `<span class="tag warn">paused</span>`)
	require.Contains(t, act("do", "limit", "class", "A", "concurrency", "5"), "A runs at most 5 at once.")
	require.Contains(t, act("do", "drop", "class", "B"), "B is dropped: its jobs end before they start.")
	rules, problems, err := r.dash.inspector.ClassRules(t.Context())
	require.NoError(t, err)
	require.Empty(t, problems)
	require.Equal(t, []inspect.ClassRule{
		{Class: "<b>Reports::Daily", Rule: inspect.RulePause}, {Class: "A", Rule: inspect.RuleLimit, Concurrency: 5}, {Class: "B", Rule: inspect.RuleDrop},
	}, rules)
	require.Contains(t, act("do", "resume", "class", "A"), "A is resumed")
	require.Contains(t, act("do", "resume", "class", "A"), "A has no rule any more.")
	for _, fields := range [][]string{{"do", "pause"}, {"do", "limit", "class", "A"}, {"do", "limit", "class", "A", "concurrency", "-1"}, {"do", "stop", "class", "A"}} {
		require.Equal(t, http.StatusBadRequest, r.post("/classes", fields...).status, fields)
	}
	require.Contains(t, r.log.String(), `"act":"limit","class":"A","concurrency":"5"`)

	limit := r.get("/limit?name=class.B").body
	require.Contains(t, limit, "It is the rule of a class")
	require.NotContains(t, limit, `value="remove"`)
	require.Equal(t, http.StatusBadRequest, r.post("/limits", "do", "remove", "name", "class.B").status)
}
