package job

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
)

// EncodeBacktrace writes an error's stack as error_backtrace holds it: the lines as a JSON array, zlib, Base64 on one
// line. (zlib, not gzip and not bare deflate: Ruby's page fails on those.)
func EncodeBacktrace(lines []string) string {
	text := []byte{'['}
	for i, line := range lines {
		if i > 0 {
			text = append(text, ',')
		}
		text = appendQuoted(text, line)
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	// Writes to a buffer do not fail.
	_, _ = z.Write(append(text, ']'))
	_ = z.Close()
	return base64.StdEncoding.EncodeToString(packed.Bytes())
}

// maxBacktrace bounds what a backtrace may unpack to, in bytes: a few kilobytes of payload can hold gigabytes of zeros.
const maxBacktrace = 1 << 20

// DecodeBacktrace reads the text of error_backtrace as EncodeBacktrace and Ruby since 6.0.1 write it, the newlines of
// older ones included. It fails on anything else, and on more than 1 MiB of lines.
func DecodeBacktrace(text string) ([]string, error) {
	packed, err := base64.StdEncoding.DecodeString(text) // it passes over newlines
	if err != nil {
		return nil, fmt.Errorf("read backtrace: %w", err)
	}
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("read backtrace: %w", err)
	}
	unpacked, err := io.ReadAll(io.LimitReader(z, maxBacktrace))
	if err != nil {
		return nil, fmt.Errorf("read backtrace: %w", err)
	}
	var lines []string
	if err := json.Unmarshal(unpacked, &lines); err != nil {
		return nil, fmt.Errorf("read backtrace: %w", err)
	}
	return lines, nil
}
