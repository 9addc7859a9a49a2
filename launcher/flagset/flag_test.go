package flagset_test

import (
	"flag"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/launcher/flagset"
)

// settings are a worker's settings and the flags that are bound to them.
type settings struct {
	tag     string
	timeout time.Duration
	poll    time.Duration
	queues  []fetch.Queue
	flags   []*flagset.Flag
}

func newSettings() *settings {
	s := &settings{tag: "program"}
	s.flags = []*flagset.Flag{
		flagset.Text("tag", "tag", &s.tag),
		flagset.Scalar("shutdown-timeout", "timeout", &s.timeout, 25*time.Second, flagset.ZeroIsNone),
		flagset.OrOff(flagset.Scalar("poll", "interval", &s.poll, time.Second, flagset.ZeroIsInvalid), &s.poll),
		flagset.Queues("queue", "queue", &s.queues).WithShort("q"),
	}
	return s
}

func (s *settings) read(args []string, environ map[string]string) error {
	set := flag.NewFlagSet("program", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	lookup := func(name string) (string, bool) { value, ok := environ[name]; return value, ok }
	return flagset.ReadCommandLine(set, args, lookup, s.flags)
}

func TestAFlagOverridesTheEnvironmentWhichOverridesTheProgram(t *testing.T) {
	t.Parallel()
	s := newSettings()
	require.NoError(t, s.read(nil, nil))
	require.Equal(t, "program", s.tag)
	require.Zero(t, s.timeout, "the config keeps its own default")
	require.Equal(t, "25s", s.flags[1].String(), "and the help shows it")

	environ := map[string]string{"BELAY_TAG": "environment", "BELAY_QUEUES": "a,3 b", "BELAY_POLL": "off"}
	s = newSettings()
	require.NoError(t, s.read([]string{"-tag", "flag", "-shutdown-timeout", "0"}, environ))
	require.Equal(t, "flag", s.tag)
	require.Equal(t, []fetch.Queue{{Name: "a", Weight: 3}, {Name: "b"}}, s.queues)
	require.Equal(t, []time.Duration{-1, -1}, []time.Duration{s.timeout, s.poll}, "none, and off")
	require.Equal(t, []string{"0s", "off"}, []string{s.flags[1].String(), s.flags[2].String()})

	s = newSettings()
	require.NoError(t, s.read([]string{"-q", "c"}, environ))
	require.Equal(t, []fetch.Queue{{Name: "c"}}, s.queues)
}

func TestMistakesAreNamedByTheirSource(t *testing.T) {
	t.Parallel()
	err := newSettings().read(nil, map[string]string{"BELAY_POLL": "0", "BELAY_SHUTDOWN_TIMEOUT": "soon", "BELAY_QUEUES": "a,0"})
	for _, want := range []string{"--poll 0: it must be above 0", `BELAY_SHUTDOWN_TIMEOUT="soon"`, `BELAY_QUEUES="a,0"`} {
		require.ErrorContains(t, err, want)
	}
	for _, args := range [][]string{{"-nosuch"}, {"-poll", "x"}, {"-q", "a b"}, {"word"}} {
		require.ErrorIs(t, newSettings().read(args, nil), flagset.ErrPrinted, args)
	}
	require.ErrorIs(t, newSettings().read([]string{"-h"}, nil), flag.ErrHelp)
}
