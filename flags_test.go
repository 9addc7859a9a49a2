package belay

import (
	"context"
	"errors"
	"flag"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
)

// mainRun is what a program whose main function is Main does with a command line and an environment.
func mainRun(args []string, environ map[string]string, setUp func(context.Context, *Server) error, cfg MainConfig) (status int, errs string) {
	var out drivertest.Buffer
	set := flag.NewFlagSet("program", flag.ContinueOnError)
	set.SetOutput(&out)
	lookup := func(name string) (string, bool) { value, ok := environ[name]; return value, ok }
	status = runMain(set, args, lookup, &out, setUp, cfg)
	return status, out.String()
}

func TestMainRunsAWorker(t *testing.T) {
	t.Parallel()
	redis := drivertest.Redis(t)
	prefix := strings.TrimSuffix(drivertest.Prefix(t), ":")
	var seen []any
	status, errs := mainRun([]string{"-queue", "mail,2", "-q", "other", "-log-format=json"},
		map[string]string{"REDIS_URL": redis.URL(), "BELAY_PREFIX": prefix, "BELAY_CONCURRENCY": "3", "BELAY_QUEUES": "not these", "BELAY_LABELS": "a b"},
		func(ctx context.Context, server *Server) error {
			server.HandleRaw("A", func(ctx context.Context, _ *Job) error {
				info, _ := Info(ctx)
				for seen == nil && ctx.Err() == nil { // until it has announced itself
					reply := server.Client().Driver().Do(ctx, driver.Command("HMGET", prefix+":"+info.Identity, "concurrency", "info"))[0]
					if fields, _ := reply.Value.([]any); len(fields) == 2 && fields[0] != nil {
						seen = fields
					}
					time.Sleep(time.Millisecond)
				}
				server.Stop()
				return nil
			})
			_, err := server.Client().Push(ctx, RawJob{Class: "A", Queue: "mail"})
			return err
		}, MainConfig{Server: ServerConfig{Concurrency: 7, Queues: Queues("program"), Tag: "mine"}})
	require.Zero(t, status, errs)
	require.Equal(t, "3", seen[0], "the environment comes before the program's config")
	for _, part := range []string{`"queues":["mail","other"]`, `"labels":["a","b"]`, `"tag":"mine"`} {
		require.Contains(t, seen[1], part)
	}
	require.Contains(t, errs, `"message":"working"`)
}

func TestMainTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	nothing := func(_ context.Context, server *Server) error {
		server.HandleRaw("A", func(context.Context, *Job) error { return nil })
		return nil
	}
	for _, c := range []struct {
		args    []string
		environ map[string]string
		status  int
		says    []string
	}{
		{args: []string{"-h"}, says: []string{"[BELAY_CONCURRENCY]", "[BELAY_QUEUES]"}},
		{args: []string{"-nosuch"}, status: exitUsage, says: []string{"-nosuch"}},
		{args: []string{"-c", "many"}, status: exitUsage, says: []string{"whole number"}},
		{args: []string{"-q", "a,0"}, status: exitUsage, says: []string{"NAME,WEIGHT"}},
		{args: []string{"-c", "0", "-ttl", "1s", "-max-retries=-1", "-poll", "0"}, status: exitUsage,
			says: []string{"concurrency 0", "max-retries -1", "poll 0"}},
		{environ: map[string]string{"BELAY_TTL": "soon", "BELAY_CONCURRENCY": "x"}, status: exitUsage, says: []string{`BELAY_TTL="soon"`, `BELAY_CONCURRENCY="x"`}},
		{args: []string{"-log-level", "loud"}, status: exitUsage, says: []string{`"loud"`}},
		{args: []string{"-log-format", "xml"}, status: exitUsage, says: []string{`"xml"`}},
		{args: []string{"-redis", "http://:SECRET@h"}, status: exitUsage},
		{args: []string{"-health-addr", "nowhere:-1"}, status: exitFailure, says: []string{"listen for health checks"}},
	} {
		status, errs := mainRun(c.args, c.environ, nothing, MainConfig{})
		require.Equal(t, c.status, status, "%q: %s", c.args, errs)
		require.NotContains(t, errs, "SECRET")
		for _, part := range c.says {
			require.Contains(t, errs, part, c.args)
		}
	}
	status, errs := mainRun(nil, nil, func(context.Context, *Server) error { return errors.New("no database") }, MainConfig{})
	require.Equal(t, exitFailure, status)
	require.Contains(t, errs, "no database")
	status, errs = mainRun(nil, nil, func(context.Context, *Server) error { return nil }, MainConfig{})
	require.Equal(t, exitFailure, status)
	require.Contains(t, errs, "the server has no handlers")
}

func TestMainEndsAtOnceWhereItsPasswordIsWrong(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t, "--requirepass", "right")
	for url, part := range map[string]string{
		"redis://:SECRET@" + server.Addr(): "WRONGPASS",
		"redis://" + server.Addr():         "this Redis wants a password",
	} {
		type ended struct {
			status int
			errs   string
		}
		done := make(chan ended, 1)
		go func() {
			status, errs := mainRun([]string{"-redis", url}, nil, func(_ context.Context, server *Server) error {
				server.HandleRaw("A", func(context.Context, *Job) error { return nil })
				return nil
			}, MainConfig{})
			done <- ended{status, errs}
		}()
		var end ended
		select {
		case end = <-done:
		case <-time.After(20 * time.Second):
			require.FailNow(t, "it does not end")
		}
		require.Equal(t, exitFailure, end.status)
		require.Contains(t, end.errs, part)
		require.NotContains(t, end.errs, "SECRET")
	}
}

// The command line of a program of one's own is that of belay work: its names, and what they mean when
// nothing is said.
func TestMainsFlagsAreThoseOfBelayWork(t *testing.T) {
	t.Parallel()
	help, err := exec.CommandContext(t.Context(), "go", "run", "./cmd/belay", "work", "--help").Output()
	require.NoError(t, err)
	byDefault := regexp.MustCompile(`\(default .*?\)`)
	for _, f := range new(MainConfig).Flags() {
		short := "   "
		if f.Short != "" {
			short = "-" + f.Short + ","
		}
		line := regexp.MustCompile(`(?m)^ +` + short + ` --` + f.Name + ` .*$`).FindString(string(help))
		require.NotEmpty(t, line, f.Name)
		want := byDefault.FindString(f.Usage)
		if want == "" && f.String() != "" && !f.IsBoolFlag() { // a switch is off by default, and help does not say so
			want = "(default " + f.String() + ")"
		}
		require.Equal(t, want != "", byDefault.MatchString(line), "%s: %s", f.Usage, line)
		require.Contains(t, strings.ReplaceAll(line, `"`, ""), want)
		require.Contains(t, string(help), f.Variable)
	}
}

// A program that runs jobs does not pay for the command line and the configuration files of belay.
func TestMainBringsNoCommandLineLibrary(t *testing.T) {
	t.Parallel()
	listed, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	require.NotRegexp(t, `(?m)^(go\.yaml\.in|gopkg\.in|github\.com/(spf13|goccy))/`, string(listed))
}
