package service_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/launcher/service"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	judge := dummy{ready: launcher.Finding{Reason: "quiet", Detail: "somebody said so"}, alive: launcher.Finding{OK: true}}
	ask := func(method, path string) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		service.Health(judge).ServeHTTP(recorder, httptest.NewRequest(method, path, nil))
		return recorder
	}
	alive := ask(http.MethodGet, "/healthz")
	require.Equal(t, http.StatusOK, alive.Code)
	require.Equal(t, `{"ok":true}`+"\n", alive.Body.String())
	ready := ask(http.MethodGet, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, ready.Code)
	require.Equal(t, `{"ok":false,"reason":"quiet","detail":"somebody said so"}`+"\n", ready.Body.String())
	require.Equal(t, "no-store", ready.Header().Get("Cache-Control"))
	require.Equal(t, http.StatusNotFound, ask(http.MethodGet, "/").Code)
	require.Equal(t, http.StatusMethodNotAllowed, ask(http.MethodPost, "/readyz").Code)
}

func TestAProcessAnswersAtItsAddressAsLongAsItRuns(t *testing.T) {
	lines, log := io.Pipe()
	stop := run(t, service.Process{Worker: dummy{alive: launcher.Finding{OK: true}}, HealthAddr: "127.0.0.1:0", Log: zerolog.New(log)})
	var said struct{ Address, Message string }
	text, err := bufio.NewReader(lines).ReadBytes('\n')
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &said))
	require.Equal(t, "answering health checks", said.Message)
	url := "http://" + said.Address + "/healthz"
	answer, err := http.Get(url)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)

	taken := service.Process{Worker: dummy{}, HealthAddr: said.Address}.Run(context.Background())
	require.ErrorContains(t, taken, "belay: listen for health checks: ")
	stop()
	_, err = http.Get(url)
	require.Error(t, err)
}
