package job_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

func compressedJob(t *testing.T, args, rest string) *job.Job {
	t.Helper()
	var packed bytes.Buffer
	writer := zlib.NewWriter(&packed)
	_, err := writer.Write([]byte(args))
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	j, err := job.Parse(fmt.Sprintf(`{"class":"A","jid":"1","args":[%q],"compressed":true%s}`, base64.StdEncoding.EncodeToString(packed.Bytes()), rest))
	require.NoError(t, err)
	return j
}

func TestDecompressed(t *testing.T) {
	t.Parallel()
	const limited = `,"original_job_size_bytes":9`
	largest := `["` + strings.Repeat("a", job.MaxDecompressed-4) + `"]`
	for _, args := range []string{`[]`, `[1.0,"é"]`, largest} {
		own, err := compressedJob(t, args, limited).Decompressed()
		require.NoError(t, err)
		require.Equal(t, args, own.ArgsJSON())
		require.False(t, own.Compressed())
	}
	for args, why := range map[string]string{`["SECRET`: "not a JSON array", `{"SECRET":1}`: "not a JSON array", largest + " ": "longer than"} {
		_, err := compressedJob(t, args, limited).Decompressed()
		require.ErrorContains(t, err, why)
		require.NotContains(t, err.Error(), "SECRET")
	}
	_, err := compressedJob(t, `[]`, "").Decompressed()
	require.ErrorContains(t, err, "size limiter did not write")
	for _, args := range []string{`["!"]`, `["eJyL"]`, `[""]`, `[1]`, `["eJyLjgUAARUAuQ==",1]`} {
		j, err := job.Parse(`{"class":"A","jid":"1","args":` + args + `,"compressed":true` + limited + `}`)
		require.NoError(t, err)
		_, err = j.Decompressed()
		require.Error(t, err, args)
	}
}
