package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver/drivertest"
)

// serve serves the rig's dashboard and returns its address. It ends with the test.
func serve(t *testing.T, r *rig, users *Users) string {
	t.Helper()
	listener, err := Listen("127.0.0.1:0", users)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, r.dash, users) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		http.DefaultClient.CloseIdleConnections()
	})
	return listener.Addr().String()
}

func TestServeAnswersUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Hosts: LoopbackHosts()})
	addr := serve(t, r, NewUsers())
	response, err := http.Get("http://" + addr + "/healthz")
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, "ok\n", string(text))
}

func TestServeRequiresItsUsers(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	addr := serve(t, r, someUsers(t))
	for path, status := range map[string]int{"/": 401, "/healthz": 200, "/assets/belay.css": 401} {
		response, err := http.Get("http://" + addr + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, status, response.StatusCode, path)
	}
}

// A connection beyond the limit waits until another has ended.
func TestServeBoundsItsConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	addr := serve(t, r, NewUsers())
	open := make([]net.Conn, maxConns)
	for n := range open {
		var err error
		open[n], err = net.Dial("tcp", addr)
		require.NoError(t, err)
		_, err = fmt.Fprintf(open[n], "GET /assets/belay.svg HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
	}
	for _, conn := range open { // all are being served
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.NoError(t, response.Body.Close())
	}
	last, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	_, err = fmt.Fprintf(last, "GET /assets/belay.svg HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, last.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	_, err = last.Read(make([]byte, 1))
	require.ErrorContains(t, err, "timeout")
	require.NoError(t, open[0].Close())
	require.NoError(t, last.SetReadDeadline(time.Now().Add(30*time.Second)))
	_, err = last.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, last.Close())
	for _, conn := range open[1:] {
		require.NoError(t, conn.Close())
	}
}

func TestServeRefusesLargeHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	addr := serve(t, r, NewUsers())
	request, err := http.NewRequest("GET", "http://"+addr+"/", nil)
	require.NoError(t, err)
	request.Header.Set("X-Long", strings.Repeat("x", 64<<10))
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, response.StatusCode)
}

func TestTheRecorderKeepsWhatThePlotsShow(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.do("SADD", r.keys.Queues(), "mail")
	r.do("LPUSH", r.keys.Queue("mail"), payload("a", "Report"), payload("b", "Report"))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.dash.Run(ctx) }()
	drivertest.Eventually(t, func() bool {
		return strings.Contains(r.get("/series.json").body, `"name":"mail","size":[2]`)
	}, 10*time.Second, 10*time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	require.Contains(t, r.get("/series.json?range=days").body, `"days":true`)
	require.Contains(t, r.get("/?range=days").body, "The figures of each day")
}
