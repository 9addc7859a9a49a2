package report

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// A Machine is where figures were taken.
type Machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	Kernel string `json:"kernel"`
	OS     string `json:"os"`
}

// ThisMachine looks at the machine it runs on. What the system does not tell stays "unknown".
func ThisMachine() Machine {
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo")
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return Machine{
		Cores: runtime.NumCPU(), CPU: orUnknown(modelOf(string(cpuinfo))), Kernel: orUnknown(strings.TrimSpace(string(kernel))),
		OS: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// modelOf reads the processor's name from the text of /proc/cpuinfo.
func modelOf(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

func (m Machine) String() string {
	return fmt.Sprintf("%d cores of %s, %s, kernel %s", m.Cores, m.CPU, m.OS, m.Kernel)
}
