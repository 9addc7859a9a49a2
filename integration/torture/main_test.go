package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"extra"}, {"-seed", "3", "extra"}, {"-seed", "-1"}, {"-seed", "x"},
		{"-minutes", "NaN"}, {"-minutes", "Inf"}, {"-minutes", "-Inf"}, {"-minutes", "0"}, {"-minutes", "-1"}, {"-minutes", "1e300"},
		{"-shards", "1"}, {"-shards", "-1"}, {"-shards", "17"}, {"-shards", ""},
	} {
		_, err := parse(args)
		require.Error(t, err, "%q", args)
	}
}

func TestMinutesAreFractions(t *testing.T) {
	t.Parallel()
	tort, err := parse([]string{"-seed", "3", "-minutes", "0.3"})
	require.NoError(t, err)
	require.Equal(t, newPlan(3, 18*time.Second, 0), tort.plan)
}
