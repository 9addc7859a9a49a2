package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGuardSaysWhichBoundIsExceeded(t *testing.T) {
	t.Parallel()
	bounds := map[string]float64{scriptCallsPerJob: 1, roundTripsPerJob: 1, allocationsPerJob: 10, cpuToFloor: 2}
	all := []guard{{"go-redis", 100, bounds}, {"rueidis", 25, bounds}}
	good := map[string]float64{scriptCallsPerJob: 1, roundTripsPerJob: 0.5, allocationsPerJob: 10, cpuToFloor: 1.9}
	var out strings.Builder
	require.NoError(t, tellGuards(&out, all, []map[string]float64{good, good}))
	require.Len(t, strings.Split(strings.TrimSpace(out.String()), "\n"), 9)
	require.NotContains(t, out.String(), "EXCEEDED")

	bad := map[string]float64{scriptCallsPerJob: 1, roundTripsPerJob: 1, allocationsPerJob: 10.1, cpuToFloor: 1}
	err := tellGuards(&out, all, []map[string]float64{good, bad})
	require.EqualError(t, err, "a job costs more than it may: rueidis, concurrency 25: allocations")
	require.Contains(t, out.String(), "EXCEEDED")
}

func TestGuardTakesTheLeastOfSeveralRuns(t *testing.T) {
	t.Parallel()
	least := lesser(nil, map[string]float64{"a": 3, "b": 1})
	least = lesser(least, map[string]float64{"a": 2, "b": 5})
	require.Equal(t, map[string]float64{"a": 2, "b": 1}, least)
}

// A drain that is measured again because of noise must not be one within its bounds.
func TestGuardMeasuresOnlyWhatExceedsAgain(t *testing.T) {
	t.Parallel()
	g := guard{"go-redis", 100, map[string]float64{scriptCallsPerJob: 1, cpuToFloor: 2}}
	require.False(t, g.exceeded(map[string]float64{scriptCallsPerJob: 1, cpuToFloor: 2, "other": 9}))
	require.True(t, g.exceeded(map[string]float64{scriptCallsPerJob: 1, cpuToFloor: 2.1}))
	require.Greater(t, guardMost, guardRepeats)
}
