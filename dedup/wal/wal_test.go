package wal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
)

// The replies of a real server are tested in integration/postgres.
func TestEndOfRecords(t *testing.T) {
	t.Parallel()
	const page, file = 8192, 16 << 20
	for position, want := range map[dedup.LSN]dedup.LSN{
		3*page + pageHeader: 3 * page, 3*page + pageHeader + 8: 3*page + pageHeader + 8, 3 * page: 3 * page, 3*page - 8: 3*page - 8,
		1<<32 + segmentHeader: 1 << 32, 5*file + segmentHeader: 5 * file, 5*file + page + segmentHeader: 5*file + page + segmentHeader,
	} {
		require.Equal(t, want, endOfRecords(position, page, file))
	}
	require.Equal(t, dedup.LSN(page+pageHeader), endOfRecords(page+pageHeader, 2*page, file), "the middle of a larger page")
	require.Equal(t, dedup.LSN(pageHeader), endOfRecords(pageHeader, 0, 0), "a page of unknown length")
}
