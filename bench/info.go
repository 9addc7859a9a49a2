package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
)

// info is one field of a section of Redis' INFO.
func info(ctx context.Context, client driver.Client, section, field string) (string, error) {
	reply := client.Do(ctx, driver.Command("INFO", section))[0]
	if reply.Err != nil {
		return "", fmt.Errorf("ask Redis for INFO %s: %w", section, reply.Err)
	}
	text, _ := reply.Value.(string)
	value, found := fieldOf(text, field)
	if !found {
		return "", fmt.Errorf("the INFO %s of this Redis has no %s", section, field)
	}
	return value, nil
}

// fieldOf reads a field from the text of INFO.
func fieldOf(text, field string) (string, bool) {
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == field {
			return value, true
		}
	}
	return "", false
}

// redisCPU is the processor time that Redis has used so far, user and system.
func redisCPU(ctx context.Context, client driver.Client) (time.Duration, error) {
	var total float64
	for _, field := range []string{"used_cpu_sys", "used_cpu_user"} {
		text, err := info(ctx, client, "cpu", field)
		if err != nil {
			return 0, err
		}
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", field, err)
		}
		total += seconds
	}
	return time.Duration(total * float64(time.Second)), nil
}

// usedMemory is how many bytes Redis has allocated.
func usedMemory(ctx context.Context, client driver.Client) (int64, error) {
	text, err := info(ctx, client, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// roundTrips is how often Redis has read from its clients, but for GET, which asks it how far a drain has
// come: a pipeline that is not too large is one read.
func roundTrips(ctx context.Context, client driver.Client) (int64, error) {
	text, err := info(ctx, client, "stats", "total_reads_processed")
	if err != nil {
		return 0, err
	}
	reads, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read total_reads_processed: %w", err)
	}
	gets, err := calls(ctx, client, "get")
	return reads - gets, err
}

// scriptCalls is how many script calls Redis has served.
func scriptCalls(ctx context.Context, client driver.Client) (int64, error) {
	return calls(ctx, client, "evalsha")
}

// calls is how often a command was called.
func calls(ctx context.Context, client driver.Client, command string) (int64, error) {
	reply := client.Do(ctx, driver.Command("INFO", "commandstats"))[0]
	if reply.Err != nil {
		return 0, reply.Err
	}
	text, _ := reply.Value.(string)
	return callsOf(text, command), nil
}

// callsOf reads how often a command was called from the text of INFO commandstats; one never called is not in
// it.
func callsOf(stats, command string) int64 {
	value, _ := fieldOf(stats, "cmdstat_"+command)
	digits, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
	calls, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return calls
}

// perJob is a duration's share of one job, in microseconds.
func perJob(d time.Duration, jobs int) float64 {
	return float64(d.Nanoseconds()) / 1000 / float64(jobs)
}
