package drivertest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/belayq/belay/internal/drivertest/relay"
	"github.com/belayq/belay/internal/drivertest/resp"
)

// Older runs a stand-in for a Redis of an older version until the test ends, and returns its URL. It answers
// PING, TIME, INFO, and HELLO unless its version is 5; every other command is an unknown one.
func Older(t testing.TB, version string) string {
	t.Helper()
	return relay.Serve(t, func(conn net.Conn) {
		for in := bufio.NewReader(conn); ; {
			call, err := resp.Read(in)
			if err != nil {
				return
			}
			words, _ := call.([]any)
			if _, err := io.WriteString(conn, olderReply(version, words)); err != nil {
				return
			}
		}
	}).URL() + "/0"
}

func olderReply(version string, words []any) string {
	info := fmt.Sprintf("# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\n", version)
	switch {
	case len(words) == 0:
	case words[0] == "PING":
		return "+PONG\r\n"
	case words[0] == "TIME":
		return "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n"
	case words[0] == "INFO":
		return fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
	case words[0] == "HELLO" && !strings.HasPrefix(version, "5."):
		return fmt.Sprintf("*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$%d\r\n%s\r\n", len(version), version)
	}
	return fmt.Sprintf("-ERR unknown command `%v`, with args beginning with: \r\n", words[0])
}
