package web

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
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
	addr := serve(t, r, nil)
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

// A program that has not added its users yet must not serve them to everyone.
func TestServeAdmitsNobodyOfAnEmptySet(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	for name, users := range map[string]*Users{"empty": NewUsers(), "zero": {}} {
		addr := serve(t, r, users)
		for _, password := range []string{"", "x"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/", nil)
			require.NoError(t, err)
			request.SetBasicAuth("alice", password)
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusUnauthorized, response.StatusCode, name)
		}
	}
	require.PanicsWithValue(t, "web: Users.Require: the users are nil; serve the handler itself if no user is asked for", func() {
		var users *Users
		users.Require(r.dash)
	})
}

// More connections than are permitted, with all that a client can do without a password.
func TestClientsWithoutAPasswordKeepNoUserOut(t *testing.T) {
	t.Parallel()
	r, users := newRig(t, Config{}), someUsers(t)
	listener, err := Listen("127.0.0.1:0", users)
	require.NoError(t, err)
	// No connection times out, so that the user would wait in vain for that.
	server := r.dash.server(users)
	server.ReadHeaderTimeout, server.ReadTimeout, server.IdleTimeout = time.Hour, time.Hour, time.Hour
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(limit(listener, maxConns, maxConnsOfOne)) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	addr := listener.Addr().String()
	for n := range 2 * maxConns {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		switch n % 4 {
		case 0: // silent
		case 1:
			_, _ = fmt.Fprintf(conn, "GET / HT")
		case 2:
			_, _ = fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
			_, _ = http.ReadResponse(bufio.NewReader(conn), nil)
		case 3:
			_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\nx")
		}
	}
	request, err := http.NewRequest("GET", "http://"+addr+"/dead", nil)
	require.NoError(t, err)
	request.SetBasicAuth("guest", "look")
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}).Do(request)
	require.NoError(t, err, "it waits for another connection to time out")
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
}

func TestARefusedLoginClosesItsConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	addr := serve(t, r, someUsers(t))
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(idleTimeout/2)))
	text, err := io.ReadAll(conn)
	require.NoError(t, err, "the end comes before the deadline")
	require.Contains(t, string(text), "401 Unauthorized")
}

func TestServeRefusesLargeHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	addr := serve(t, r, nil)
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
		return strings.Contains(r.get("/series.json").body, `"name":"mail","ink":0,"values":[2]`)
	}, 10*time.Second, 10*time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	require.Contains(t, r.get("/series.json?range=days").body, `"days":true`)
	require.Contains(t, r.get("/?range=days").body, "The figures of each day")
}

// beginForms opens connections, and sends on each the beginning of a form as this user.
func beginForms(t *testing.T, addr, user, password string, count int) (conns []net.Conn) {
	t.Helper()
	for range count {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "POST /act HTTP/1.1\r\nHost: x\r\nAuthorization: Basic %s\r\nContent-Type: application/x-www-form-urlencoded\r\n"+
			"Content-Length: 1000\r\n\r\na=", base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	return conns
}

// A user, or one who may only look, opens more requests than there are slots, and sends their forms slowly.
func TestSlowFormsKeepNoUserOut(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	users := someUsers(t)
	server := httptest.NewServer(users.Require(r.dash)) // without a deadline, as that of another program may be
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	addr := server.Listener.Addr().String()
	for _, conn := range beginForms(t, addr, "guest", "look", 2*atOnce) {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, "a user who may not act is refused before the form is there")
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusForbidden, answer.StatusCode)
	}
	beginForms(t, addr, "alice", "correct horse", 2*atOnce)
	for range 2 * atOnce { // while the forms arrive
		request, err := http.NewRequest("GET", server.URL+"/dead", nil)
		require.NoError(t, err)
		request.SetBasicAuth("guest", "look")
		answer, err := server.Client().Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode)
	}
}

// A deadlined records the deadlines that a handler sets for reading its request.
type deadlined struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (d *deadlined) SetReadDeadline(at time.Time) error {
	d.deadlines = append(d.deadlines, at)
	return nil
}

func TestAFormHasADeadlineInAnyServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	post := func(body io.Reader) []time.Time {
		w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
		request := httptest.NewRequest("POST", "/act", body)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Sec-Fetch-Site", "same-origin")
		r.dash.ServeHTTP(w, request)
		return w.deadlines
	}
	deadlines := post(strings.NewReader("in=dead"))
	require.Len(t, deadlines, 2)
	require.WithinDuration(t, time.Now().Add(readTimeout), deadlines[0], readTimeout/2)
	require.Zero(t, deadlines[1], "it is for the form, and not for the act")
	require.Len(t, post(iotest.ErrReader(os.ErrDeadlineExceeded)), 1, "it stays for what is left of the form")
}
