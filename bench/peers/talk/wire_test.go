package talk_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/bench/peers/talk"
)

// bound is how long a test waits for what must happen.
const bound = 10 * time.Second

func TestTaskIsTheFirstLine(t *testing.T) {
	t.Parallel()
	wire := talk.Open(strings.NewReader(`{"measure":"drain","jobs":7,"best":true,"new":1}`+"\n"), io.Discard, func() {})
	task, err := wire.Task()
	require.NoError(t, err)
	require.Equal(t, talk.Task{Measure: "drain", Jobs: 7, Best: true}, task)
}

func TestWaitGoesOnAtTheNextLine(t *testing.T) {
	t.Parallel()
	in, bench := io.Pipe()
	defer func() { _ = bench.Close() }()
	var out bytes.Buffer
	wire := talk.Open(in, &out, func() {})
	waited := make(chan error, 1)
	go func() { waited <- wire.Wait(talk.Event{Event: talk.Ready}) }()
	select {
	case err := <-waited:
		require.Fail(t, "it went on before it was told to", err)
	case <-time.After(20 * time.Millisecond):
	}
	_, err := io.WriteString(bench, "go\n")
	require.NoError(t, err)
	select {
	case err := <-waited:
		require.NoError(t, err)
	case <-time.After(bound):
		require.Fail(t, "it did not go on")
	}
	require.Equal(t, `{"event":"ready"}`+"\n", out.String())
}

func TestHangUp(t *testing.T) {
	t.Parallel()
	open := func() (*talk.Wire, *io.PipeWriter, chan struct{}) {
		in, bench := io.Pipe()
		hung := make(chan struct{}, 1)
		return talk.Open(in, io.Discard, func() { hung <- struct{}{} }), bench, hung
	}
	t.Run("ends a subject whose bench is gone", func(t *testing.T) {
		t.Parallel()
		_, bench, hung := open()
		require.NoError(t, bench.Close())
		select {
		case <-hung:
		case <-time.After(bound):
			require.Fail(t, "nobody was told")
		}
	})
	t.Run("spares one that has said its last event", func(t *testing.T) {
		t.Parallel()
		wire, bench, hung := open()
		require.NoError(t, wire.Say(talk.Event{Event: talk.Done}))
		require.NoError(t, bench.Close())
		require.ErrorIs(t, wire.Await(), io.ErrUnexpectedEOF, "the end was seen")
		require.Empty(t, hung)
	})
}
