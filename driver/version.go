package driver

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An OldServerError means that the server is a Redis older than 7.0, the first whose scripts may declare that
// they run on a full Redis. Waiting does not cure it.
type OldServerError struct{ Version string }

func (e *OldServerError) Error() string {
	return fmt.Sprintf("this is Redis %s, and Belay needs Redis 7.0 or newer: upgrade it, or give the URL of a newer one", e.Version)
}

// OldVersion reports whether the version of a Redis, such as 6.2.14, is below 7.0. A text that is not a
// version is not old.
func OldVersion(version string) bool {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err == nil && n < 7
}

// CheckVersion returns the version that the server reports, and an *OldServerError if it is a Redis that is
// too old. The version is empty if the server hides it: then nothing is known to be wrong. Any other error
// means that no server answered, or that it refuses everything at the moment.
//
// It asks with HELLO, which every user may call, and with INFO only where HELLO is unknown (before Redis 6.2,
// and in servers that are not Redis).
func CheckVersion(ctx context.Context, client Client) (version string, err error) {
	reply := client.Do(ctx, Command("HELLO"))[0]
	fields, _ := reply.Value.([]any) // names and values alternate
	server := "redis"
	for pair := range slices.Chunk(fields, 2) {
		switch value, _ := pair[len(pair)-1].(string); pair[0] {
		case "server":
			server = value
		case "version":
			version = value
		}
	}
	if reply.Err != nil && !Outage(reply.Err) {
		reply = client.Do(ctx, Command("INFO", "server"))[0]
		text, _ := reply.Value.(string)
		version = ParseInfo(text)["redis_version"]
	}
	switch {
	case Outage(reply.Err):
		return "", reply.Err
	case server == "redis" && OldVersion(version):
		return version, &OldServerError{version}
	}
	return version, nil
}

// ParseInfo returns the fields of a reply to INFO; nil if it has none.
func ParseInfo(text string) map[string]string {
	var info map[string]string
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			if info == nil {
				info = map[string]string{}
			}
			info[name] = value
		}
	}
	return info
}
