package job

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxDecompressed bounds the args of a compressed payload, in bytes of JSON. Every processor may hold that
// much, and a few compressed bytes can expand to a hundred megabytes.
const MaxDecompressed = 4 * MaxPayloadLimit

// Compressed reports whether the args are one Base64 text of their compressed JSON, as GitLab's size
// limiter writes them. Only a literal true counts.
func (j *Job) Compressed() bool { return j.text(fieldCompressed) == "true" }

// Decompressed returns the job with the args that GitLab's size limiter has compressed, for a run. Retries
// keep the payload as it is. The error says why the args cannot be read, and does not quote them.
func (j *Job) Decompressed() (*Job, error) {
	args := j.Args()
	if _, limited := j.Field("original_job_size_bytes"); !limited || len(args) != 1 {
		return nil, errors.New(`"original_job_size_bytes" is missing, or the args are not one text, so GitLab's size limiter did not write them`)
	}
	text, err := inflate(str(args[0]), MaxDecompressed+1)
	switch {
	case len(text) > MaxDecompressed:
		return nil, fmt.Errorf("they are longer than %d bytes", MaxDecompressed)
	case err != nil:
		return nil, errors.New("they are not zlib in Base64")
	}
	own, err := Parse(j.Patch(Edit{Name: "args", JSON: string(text)}, Remove("compressed")))
	if err != nil {
		return nil, errors.New("they are not a JSON array")
	}
	return own, nil
}

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

// inflate reads Base64 of zlib, at most limit bytes of the result. It skips newlines.
func inflate(text string, limit int64) ([]byte, error) {
	z, err := zlib.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(z, limit))
}
