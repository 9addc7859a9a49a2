package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// binary is the program itself, for what only a process of its own can show: signals, children, an end by
// SIGKILL.
var binary string

func TestMain(m *testing.M) {
	becomeOther()
	dir, err := os.MkdirTemp("", "belay-cmd-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "belay")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
		os.Exit(1)
	}
	hintTimeout = time.Minute
	code := drivertest.Main(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// said is what a command line answered.
type said struct {
	code      int
	out, errs string
}

// invoke runs a command line in this process, with input as its standard input.
func invoke(input string, args ...string) said {
	var out, errs bytes.Buffer
	code := run(args, strings.NewReader(input), &out, &errs)
	return said{code, out.String(), errs.String()}
}

// house is a place of a test's own in the shared Redis.
type house struct {
	t      testing.TB
	server *drivertest.Server
	prefix string
}

func newHouse(t testing.TB) *house {
	t.Helper()
	return &house{t: t, server: drivertest.Redis(t), prefix: strings.TrimSuffix(drivertest.Prefix(t), ":")}
}

// at are the flags that lead to the house.
func (h *house) at(args ...string) []string {
	return append(args, "--redis", h.server.URL(), "--prefix", h.prefix)
}

func (h *house) invoke(input string, args ...string) said { return invoke(input, h.at(args...)...) }

// key is a key's whole name.
func (h *house) key(name string) string { return h.prefix + ":" + name }

func (h *house) do(words ...string) any {
	h.t.Helper()
	value, err := h.server.Do(h.t.Context(), words...)
	require.NoError(h.t, err)
	return value
}

// consumer has a living process of Sidekiq take these queues, as far as its record says.
func (h *house) consumer(queues ...string) {
	h.t.Helper()
	about, err := json.Marshal(map[string]any{"queues": queues})
	require.NoError(h.t, err)
	h.do("SADD", h.key("processes"), "ruby:1")
	h.do("HSET", h.key("ruby:1"), "info", string(about), "busy", "0", "quiet", "false")
}

// payloads are the elements of a list, or the members of a sorted set.
func (h *house) payloads(words ...string) []string {
	h.t.Helper()
	var texts []string
	for _, part := range h.do(words...).([]any) {
		texts = append(texts, part.(string))
	}
	return texts
}
