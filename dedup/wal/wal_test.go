package wal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
)

// What a server answers is held against a real one, in integration/replica.
func TestEndOfRecords(t *testing.T) {
	t.Parallel()
	const page = 8192
	for position, want := range map[dedup.LSN]dedup.LSN{
		3*page + pageHeader: 3 * page, 3*page + pageHeader + 8: 3*page + pageHeader + 8, 3 * page: 3 * page, 3*page - 8: 3*page - 8,
		1<<32 + pageHeader: 1 << 32,
	} {
		require.Equal(t, want, endOfRecords(position, page))
	}
	require.Equal(t, dedup.LSN(page+pageHeader), endOfRecords(page+pageHeader, 2*page), "the middle of a larger page")
	require.Equal(t, dedup.LSN(pageHeader), endOfRecords(pageHeader, 0), "a page of unknown length")
}
