package main

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
)

// benched runs the command line and answers all that it said.
func benched(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	was := os.Args
	t.Cleanup(func() { os.Args = was }) // reports quote it
	os.Args = append([]string{"bench"}, args...)
	var out bytes.Buffer
	command := newCommand(&out, &out)
	command.SetArgs(args)
	if err = command.ExecuteContext(bounded(t)); err != nil {
		out.WriteString(err.Error())
	}
	return out.String(), err
}

func TestAPasswordIsInNothingThatIsSaidOrWritten(t *testing.T) {
	addr := drivertest.Start(t, "--requirepass", "s3cret").Addr()
	at := func(password, db string) string { return "redis://:" + password + "@" + addr + "/" + db }
	out := t.TempDir()
	tiny := []string{"--client", "go-redis", "--jobs", "100", "--repeat", "1", "--peers", "none"}

	output, err := benched(t, append(tiny, "memory", "--redis", at("s3cret", "9"), "--out", out)...)
	require.NoError(t, err, output)
	require.Contains(t, output, "--redis redis://xxxxx@"+addr+"/9")
	require.NotContains(t, output, "s3cret")
	files, err := filepath.Glob(filepath.Join(out, "*"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NotContains(t, string(text), "s3cret", name)
	}

	conn, err := openClient("go-redis", at("s3cret", "3"))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.Do(t.Context(), driver.Command("SET", "theirs", "1"))[0].Err)
	for _, url := range []string{at("s3cret", "3"), at("wr0ng-one", "9"), "redis://h:s3cret", "redis://u:s3c/ret@" + addr + "/9"} {
		output, err := benched(t, append(tiny, "memory", "--redis", url)...)
		require.Error(t, err)
		for _, secret := range []string{"s3cret", "wr0ng-one", "s3c"} {
			require.NotContains(t, output, secret, url)
		}
	}
}

func TestHide(t *testing.T) {
	o := options{redis: "redis://user:" + url.PathEscape("p@ss word") + "@h:1/0"}
	for text, shown := range map[string]string{
		"dial " + o.redis:                  "dial redis://xxxxx@h:1/0",
		"AUTH user p@ss word failed":       "AUTH user xxxxx failed",
		"rediss://a:b@c:1/0 and b":         "rediss://xxxxx@c:1/0 and b",
		"nothing of it: 12:30, a@b, x://y": "nothing of it: 12:30, a@b, x://y",
	} {
		require.Equal(t, shown, o.hide(text))
	}
	short := options{redis: "redis://:1@h:1/0"}
	require.Equal(t, "1 of 11", short.hide("1 of 11"), "what is as short as that cannot be distinguished from a figure")
}

func TestARedisURLThatIsNoneIsAnErrorAndNoPanic(t *testing.T) {
	for _, text := range []string{"nonsense", "http://127.0.0.1/0", "redis://127.0.0.1:1/x"} {
		output, err := benched(t, "drain", "--redis", text, "--peers", "none")
		require.ErrorContains(t, err, "Redis URL")
		require.Equal(t, 1, strings.Count(output, "Redis URL"))
	}
}
