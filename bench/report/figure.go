package report

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Figure prints a figure with three digits, which is more than a second run would repeat: 178,000; 12.3; 0.052.
func Figure(v float64) string {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64) // what was just printed is a number
	magnitude := int(math.Floor(math.Log10(math.Abs(rounded))))
	text := strconv.FormatFloat(rounded, 'f', max(0, 2-magnitude), 64)
	if strings.Contains(text, ".") {
		return text
	}
	return grouped(text)
}

// Count prints a number of things: 200,000.
func Count(n int) string { return grouped(strconv.Itoa(n)) }

// grouped puts a comma before every three digits.
func grouped(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}

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
		Cores: runtime.NumCPU(), CPU: modelOf(string(cpuinfo)), Kernel: cmp.Or(strings.TrimSpace(string(kernel)), "unknown"),
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
	return "unknown"
}

func (m Machine) String() string {
	return fmt.Sprintf("%d cores of %s, %s, kernel %s", m.Cores, m.CPU, m.OS, m.Kernel)
}
