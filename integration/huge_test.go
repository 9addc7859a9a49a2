package integration

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

const (
	// enormous is the size of an entry that a program has stored past all limits, by mistake or not.
	enormous = 100 << 20
	// unburdened is the memory, in bytes, that a worker needs at most that never sees such an entry.
	unburdened = 64 << 20
)

// A foreign entry of a hundred megabytes is moved to the dead set by Redis itself, with its reason, wherever it
// lies. Only to an idle worker Redis hands it over.
//
// Not beside others: what it does to the machine's memory would be their delay.
func TestEnormousEntriesDieWithAReason(t *testing.T) {
	entry := rubyPayload("Any", "default", `["`+strings.Repeat("x", enormous)+`"]`, newJID())
	for _, place := range []struct {
		name, client string
		store        func(s *site) // before there is a worker
		most         int
	}{
		{"at the head of a queue", "go-redis", func(s *site) { s.do("LPUSH", s.keys.Queue("default"), entry) }, unburdened},
		{"due in the schedule", "rueidis", func(s *site) { s.do("ZADD", s.keys.Schedule(), "1", entry) }, unburdened},
		{"due in the retry set", "go-redis", func(s *site) { s.do("ZADD", s.keys.Retry(), "1", entry) }, unburdened},
		{"arriving at an idle worker", "go-redis", nil, unburdened + 2*enormous},
		{"arriving at an idle worker", "rueidis", nil, unburdened + 2*enormous},
	} {
		t.Run(place.name+"/"+place.client, func(t *testing.T) {
			s, book := newSite(t, drivertest.Start(t)), newLedger(t)
			s.client = place.client
			if place.store != nil {
				place.store(s)
			}
			p := s.work("-c", "2", "--exec", book.exec("Any"))
			if place.store == nil {
				eventually(t, "the worker to wait", func() bool { return strings.Contains(fmt.Sprint(s.do("INFO", "clients")), "blocked_clients:1") })
				s.do("LPUSH", s.keys.Queue("default"), entry)
			}
			book.awaitEnd(s.push("Any", "default", jsonArgs(1, 0)))
			eventually(t, "it to die", func() bool { return s.do("ZCARD", s.keys.Dead()) == int64(1) })
			eventually(t, "both to be counted", func() bool { return s.text(s.keys.Processed()) == "2" && s.text(s.keys.Failed()) == "1" })
			require.Contains(t, s.set(s.keys.Dead())[0][:200], `"error_class":"Belay::TooLarge","error_message":"too large: `)
			eventually(t, "the log line for operators", func() bool { return strings.Contains(p.log(), "payload too large") })
			require.Len(t, book.starts(""), 1)
			used := maxMemory(t, p.pid)
			t.Logf("the worker needed %d MB at most", used>>20)
			if os.Getenv("BELAY_RACE") == "" { // the detector needs several times as much
				require.Less(t, used, place.most)
			}
			require.Less(t, len(p.log()), 10_000, "a log of that size is useless")
			out, errs, status := s.belay("status")
			require.Zero(t, status, errs)
			require.Less(t, len(out), 10_000)
		})
	}
}

// maxMemory is the most memory that a process has had, in bytes.
func maxMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	require.True(t, found)
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kilobytes << 10
}
