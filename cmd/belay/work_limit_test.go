package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/job"
)

func TestLimitsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	programs := []program{{class: "A"}, {class: "B"}, {class: "*"}}
	limits, err := parseLimits([]string{
		"A=tenants,concurrency=5,key=0", "B=api,window=100/1m,concurrency=2", "*=rest,leaky=7/1s",
	}, programs)
	require.NoError(t, err)
	require.Equal(t, map[string]limitSpec{
		"A": {"A", belay.Limit{Name: "tenants", Concurrency: 5}, 0},
		"B": {"B", belay.Limit{Name: "api", Concurrency: 2, Rate: belay.Window(100, time.Minute)}, -1},
		"*": {"*", belay.Limit{Name: "rest", Rate: belay.Leaky(7, time.Second)}, -1},
	}, limits)
	_, err = parseLimits([]string{"A=same,concurrency=1", "B=same,concurrency=1,key=0"}, programs)
	require.NoError(t, err)

	_, err = parseLimits([]string{
		"A", "=x", "A=x", "A=x y,concurrency=1", "A=x,concurrency=0", "A=x,concurrency=many", "A=x,window=5", "A=x,window=1/1s,leaky=1/1s",
		"A=x,key=-1,concurrency=1", "A=x,size=5", "C=x,concurrency=1", "A=ok,concurrency=1", "A=ok,concurrency=1", "B=ok,concurrency=2",
	}, programs)
	for _, text := range []string{
		"--limit A: it must be CLASS=NAME", "--limit =x: it must be", "it limits nothing", "its name must", `"0": it must be a number from 1 on`,
		`"many": it must`, "the rate", "two rates", `key "-1"`, `"size=5": it must be concurrency`, "no --exec names the class C",
		"the class has a limit already", "the limit ok has two sizes",
	} {
		require.ErrorContains(t, err, text)
	}
}

func TestTheKeyOfALimitIsAnArgument(t *testing.T) {
	t.Parallel()
	j, err := job.Parse(job.Draft{Class: "A", Queue: "q", ArgsJSON: `["acme",7,{"a":1},null]`}.Encode())
	require.NoError(t, err)
	for position, key := range []string{"acme", "7", `{"a":1}`, "", ""} {
		require.Equal(t, key, limitSpec{key: position}.keyOf(j))
	}
}
