package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDistances(t *testing.T) {
	t.Run("a job that ran early is as far off as one that ran late", func(t *testing.T) {
		require.Equal(t, []float64{500, 500, 0}, distances([]float64{-500, 500, 0}))
	})
}
