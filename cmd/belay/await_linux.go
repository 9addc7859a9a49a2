package main

import (
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// awaitExit returns when a child has ended, or at once on kernels that cannot report this without a thread.
// Each exec.Cmd.Wait blocks a thread, and threads count against the limit on processes: at that limit Go's
// runtime would crash the worker.
func awaitExit(cmd *exec.Cmd) {
	var file *os.File
	err := cmd.Process.WithHandle(func(handle uintptr) {
		own, err := unix.FcntlInt(handle, unix.F_DUPFD_CLOEXEC, 0) // the file below closes its own descriptor
		if err != nil {
			return
		}
		if unix.SetNonblock(own, true) != nil {
			_ = unix.Close(own)
			return
		}
		file = os.NewFile(uintptr(own), "pidfd")
	})
	if err != nil || file == nil {
		return
	}
	defer func() { _ = file.Close() }()
	raw, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool { // called whenever the file is readable, that is, once the child has ended
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return ready > 0 || err != nil && err != unix.EINTR
	})
}
