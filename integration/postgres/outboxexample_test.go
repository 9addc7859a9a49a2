package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/slowlink"
)

// The program of examples/outbox: of ten orders seven are placed and confirmed. It is killed in between, when it has
// said so of the seventh, and all that it has sent to its database and that has not arrived is lost.
func TestTheExampleConfirmsWhatWasOrdered(t *testing.T) {
	t.Parallel()
	s := newShop(t, newServer(t), "postgres")
	program := filepath.Join(t.TempDir(), "program")
	built, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../../examples/outbox", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(built))
	link := slowlink.New(t, "127.0.0.1:"+s.server.port, slowlink.Speed{RoundTrip: 40 * time.Millisecond})
	var out said
	start := func(database string, orders int) (*exec.Cmd, chan error) {
		cmd := exec.Command(program, "-orders", fmt.Sprint(orders))
		cmd.Args = append(cmd.Args, "-database", fmt.Sprintf("postgres://belay@%s/shop_postgres?sslmode=disable", database))
		cmd.Env = append(os.Environ(), "REDIS_URL="+s.redis.URL())
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd, ended
	}
	of := func(verb string) (orders []string) {
		for _, match := range regexp.MustCompile(`(?m)^`+verb+` order (\d+)$`).FindAllStringSubmatch(out.String(), -1) {
			orders = append(orders, match[1])
		}
		slices.Sort(orders)
		return orders
	}
	first, ended := start(link.Addr(), 10)
	eventually(t, "the orders", func() bool { return len(of("placed")) == 7 })
	require.NoError(t, first.Process.Kill())
	link.Close()
	require.Error(t, <-ended)
	second, ended := start("127.0.0.1:"+s.server.port, 0)
	eventually(t, "the confirmations", func() bool { return len(slices.Compact(of("confirmed"))) == 7 })
	require.NoError(t, second.Process.Signal(syscall.SIGTERM))
	require.NoError(t, <-ended, out.String())
	require.Equal(t, of("placed"), slices.Compact(of("confirmed")))
}
