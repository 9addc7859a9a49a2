package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Any program that can write to Redis chooses the names in a table, whose rows are as wide as its widest one.
func TestALongNameMakesNoWideTable(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	table := newTable(&out)
	table.head("ID", "CLASS", "LAST")
	for n := range 100 {
		table.row(n, "Report", "yes")
	}
	table.row(strings.Repeat("é", 1<<20), "Report", strings.Repeat("x", 2000))
	table.field("args", strings.Repeat("a", 2000))
	require.NoError(t, table.Flush())
	require.Less(t, out.Len(), 102*(maxCell+100)+4000)
	require.Contains(t, out.String(), strings.Repeat("é", maxCell/2)+"…  Report  "+strings.Repeat("x", 2000)+"\n", "the last cell makes no other row wider")
	require.Contains(t, out.String(), strings.Repeat("a", 2000)+"\n", "a field has all of its value")
}

func TestListsOfLongNamesAreBounded(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	long := strings.Repeat("n", 1<<20)
	h.do("SADD", h.key("queues"), "mail", long)
	for n := range 50 {
		h.kill(deadJob("Mail", fmt.Sprint(n)))
	}
	h.kill(deadJob("Mail", long))
	for _, words := range [][]string{{"queues"}, {"status"}, {"dead", "--limit", "0"}} {
		answer := h.invoke("", words...)
		require.Zero(t, answer.code, answer.errs)
		require.Less(t, len(answer.out), 30<<10, words)
	}
	require.Contains(t, h.invoke("", "status").out+h.invoke("", "status").errs, "queues: names of more than 255 bytes are not listed; there are 1")
}
