package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// freezers is where cgroups of version 1 have their freezer.
const freezers = "/sys/fs/cgroup/freezer"

// freeze stops a process by the cgroup freezer until thaw is called: unlike SIGSTOP, the process cannot
// notice it, and no signal wakes it. That includes SIGKILL, so a guard thaws it should this process die.
func freeze(pid int) (thaw func(), err error) {
	group := filepath.Join(freezers, fmt.Sprintf("belay-%d-%d", os.Getpid(), pid))
	if err := os.Mkdir(group, 0o755); err != nil {
		return func() {}, err
	}
	put := func(file, text string) error { return os.WriteFile(file, []byte(text), 0) }
	state, tasks := filepath.Join(group, "freezer.state"), "cgroup.procs"
	guard := exec.Command("sh", "-c", `read -r _; echo THAWED > "$0/freezer.state"
		for _ in $(seq 100); do rmdir "$0" 2>/dev/null && exit; sleep 0.1; done`, group)
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is not for it
	watched, err := guard.StdinPipe()
	if err == nil {
		err = guard.Start()
	}
	if err != nil {
		_ = os.Remove(group)
		return func() {}, err
	}
	thaw = func() {
		_ = put(state, "THAWED")
		_ = put(filepath.Join(freezers, tasks), strconv.Itoa(pid))
		_ = watched.Close()
		_ = guard.Wait()
	}
	if err = put(filepath.Join(group, tasks), strconv.Itoa(pid)); err == nil {
		err = put(state, "FROZEN")
	}
	if err != nil {
		thaw()
		return func() {}, err
	}
	return thaw, nil
}

// Where there is no freezer to be had, SIGSTOP serves in its place.
func TestFreezeLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	group := filepath.Join(freezers, fmt.Sprintf("belay-%d-%d", os.Getpid(), cmd.Process.Pid))
	thaw, err := freeze(cmd.Process.Pid)
	if err == nil {
		eventually(t, "it to be frozen", func() bool {
			state, err := os.ReadFile(filepath.Join(group, "freezer.state"))
			return err == nil && string(state) == "FROZEN\n"
		})
	} else {
		t.Logf("no freezer: %v", err)
	}
	thaw()
	require.NoDirExists(t, group)
}
