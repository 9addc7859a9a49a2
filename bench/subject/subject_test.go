package subject

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain is also the fake subject: the test binary started again with the word "subject".
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "subject" {
		os.Exit(Serve(context.Background(), os.Stdin, os.Stdout, fakes))
	}
	goleak.VerifyTestMain(m)
}

// fakes do what real subjects do, and what they must not.
var fakes = map[string]Func{
	"drain": func(ctx context.Context, task Task, talk *Talk) error {
		if err := talk.Ready(ctx); err != nil {
			return err
		}
		if err := talk.Pushed(ctx, 2*time.Second); err != nil {
			return err
		}
		return talk.Done(Event{Seconds: 0.5, Settings: "as given", Extra: map[string]float64{"jobs": float64(task.Jobs)}})
	},
	"broken": func(_ context.Context, _ Task, _ *Talk) error {
		fmt.Fprintln(os.Stderr, "what only standard error knows")
		return errors.New("the store said no")
	},
	"silent": func(ctx context.Context, _ Task, _ *Talk) error {
		<-ctx.Done()
		return nil
	},
	"dead": func(context.Context, Task, *Talk) error {
		os.Exit(3)
		return nil
	},
	"chatty": func(context.Context, Task, *Talk) error {
		fmt.Println("Starting up!")
		return nil
	},
}

// soon is a bound for what should take milliseconds.
const soon = 20 * time.Second

func start(t *testing.T, measure string) *Process {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	p, err := Start("fake", Command{Path: path, Args: []string{"subject"}}, Task{Measure: measure, Jobs: 7})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func TestConversation(t *testing.T) {
	p := start(t, "drain")
	_, err := p.Expect(t.Context(), Ready, soon)
	require.NoError(t, err)
	require.NoError(t, p.Go())
	pushed, err := p.Expect(t.Context(), Pushed, soon)
	require.NoError(t, err)
	require.InEpsilon(t, 2.0, pushed.Seconds, 1e-9)
	require.NoError(t, p.Go())
	done, err := p.Expect(t.Context(), Done, soon)
	require.NoError(t, err)
	require.Equal(t, Event{Event: Done, Seconds: 0.5, Settings: "as given", Extra: map[string]float64{"jobs": 7}}, done)
}

func TestASubjectWaitsUntilItIsAskedToGoOn(t *testing.T) {
	p := start(t, "drain")
	_, err := p.Expect(t.Context(), Ready, soon)
	require.NoError(t, err)
	_, err = p.Next(t.Context(), 200*time.Millisecond)
	require.ErrorContains(t, err, "said nothing for 200ms")
}

func TestAFailureOfASubjectIsReported(t *testing.T) {
	for measure, says := range map[string][]string{
		"broken": {"fake: ", "the store said no"},
		"dead":   {"ended without a last word"},
		"chatty": {"said what is no event", "Starting up!"},
		"polish": {`measure "polish"`, "this subject knows broken, chatty, dead, drain, silent"},
	} {
		t.Run(measure, func(t *testing.T) {
			_, err := start(t, measure).Next(t.Context(), soon)
			for _, text := range says {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

func TestTheTailOfStandardErrorIsShown(t *testing.T) {
	p := start(t, "broken")
	_, err := p.Next(t.Context(), soon)
	require.Error(t, err)
	p.Close() // all of its standard error has been read then
	require.ErrorContains(t, p.wrong(errors.New("again")), "what only standard error knows")
}

func TestAnEventOutOfTurnIsAnError(t *testing.T) {
	_, err := start(t, "drain").Expect(t.Context(), Pushed, soon)
	require.ErrorContains(t, err, `said "ready" where "pushed" was due`)
}

func TestASubjectEndsWhenItsStandardInputDoes(t *testing.T) {
	p := start(t, "silent")
	p.Close()
	require.True(t, p.cmd.ProcessState.Exited(), "it had to be killed: %v", p.cmd.ProcessState)
}

func TestKillNeedsNoConsent(t *testing.T) {
	p := start(t, "silent")
	p.Kill()
	require.False(t, p.cmd.ProcessState.Exited(), "SIGKILL ends a process without an exit: %v", p.cmd.ProcessState)
	p.Kill()
}

func TestTheTailKeepsTheFirstAndTheLast(t *testing.T) {
	var kept tail
	written := 0
	for n := range 3000 {
		length, err := fmt.Fprintln(&kept, n)
		require.NoError(t, err)
		written += length
		require.Equal(t, written, len(kept.first)+kept.dropped+len(kept.last))
	}
	require.Less(t, len(kept.String()), 2*shownEach+30)
	require.Regexp(t, `^0\n1\n2\n`, kept.String(), "a panic tells its cause first")
	require.Regexp(t, `\n2998\n2999$`, kept.String())
	require.Contains(t, kept.String(), fmt.Sprintf("… %d bytes …", kept.dropped))

	var little tail
	_, err := fmt.Fprintln(&little, "all of it")
	require.NoError(t, err)
	require.Equal(t, "all of it", little.String())
	var once tail
	_, err = once.Write(bytes.Repeat([]byte("x"), 2*shownEach))
	require.NoError(t, err)
	require.Len(t, once.String(), 2*shownEach, "nothing is said to be left out where nothing is")
}

func TestATaskSaysOnlyWhatConcernsTheMeasure(t *testing.T) {
	text, err := json.Marshal(Task{Measure: "drain", URL: "redis://h/0", Jobs: 500, Best: true})
	require.NoError(t, err)
	require.JSONEq(t, `{"measure":"drain","url":"redis://h/0","jobs":500,"best":true}`, string(text))
}
