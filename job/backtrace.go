package job

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// EncodeBacktrace returns an error's stack in the format of error_backtrace: the lines as a JSON array,
// zlib, Base64 on one line. (Ruby's page fails on gzip and on bare deflate.)
func EncodeBacktrace(lines []string) string {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	// Strings can be written, and writes to a buffer cannot fail.
	_ = json.MarshalWrite(z, lines, jsontext.AllowInvalidUTF8(true))
	_ = z.Close()
	return base64.StdEncoding.EncodeToString(packed.Bytes())
}

// maxBacktrace bounds an unpacked backtrace, in bytes: a few kilobytes of payload can hold gigabytes of
// zeros.
const maxBacktrace = 1 << 20

// DecodeBacktrace reads the text of error_backtrace as EncodeBacktrace and Ruby since 6.0.1 write it, the
// newlines of older ones included. It fails on anything else, and on more than 1 MiB of lines.
func DecodeBacktrace(text string) ([]string, error) {
	unpacked, err := inflate(text, maxBacktrace)
	if err != nil {
		return nil, fmt.Errorf("read backtrace: %w", err)
	}
	var lines []string
	if err := json.Unmarshal(unpacked, &lines, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("read backtrace: %w", err)
	}
	return lines, nil
}
