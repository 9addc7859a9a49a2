package belay_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// The comment of a field is the one place that documents its default, so it must be the constant.
func TestCommentsNameTheDefaults(t *testing.T) {
	t.Parallel()
	seconds := func(d time.Duration) string { return fmt.Sprintf("%v s", d.Seconds()) }
	fields := map[string]string{}
	for _, file := range []string{"config.go", "unique.go", "main.go", "client/client.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		ast.Inspect(parsed, func(node ast.Node) bool {
			if spec, ok := node.(*ast.TypeSpec); ok {
				if structure, ok := spec.Type.(*ast.StructType); ok {
					for _, field := range structure.Fields.List {
						for _, name := range field.Names {
							fields[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
						}
					}
				}
			}
			return true
		})
	}
	for field, want := range map[string]string{
		"ServerConfig.Concurrency":      fmt.Sprintf("Default: %d.", launcher.DefaultConcurrency),
		"ServerConfig.ShutdownTimeout":  fmt.Sprintf("Default: %s;", seconds(launcher.DefaultShutdownTimeout)),
		"ServerConfig.Retries":          fmt.Sprintf("Default: %d;", retry.DefaultMaxRetries),
		"ServerConfig.MaxInterruptions": fmt.Sprintf("Default: %d; at least %d.", retry.DefaultMaxInterruptions, retry.MinInterruptions),
		"ServerConfig.SaveInterval":     fmt.Sprintf("Default: %s.", seconds(launcher.DefaultSaveInterval)),
		"ServerConfig.DeadLimit":        fmt.Sprintf("Sidekiq's, %d,000 jobs and %v days.", lua.DefaultDeadLimit/1000, lua.DefaultDeadFor.Hours()/24),
		"ServerConfig.Heartbeat":        fmt.Sprintf("Defaults: %s, and four heartbeats;", seconds(launcher.DefaultHeartbeat)),
		"ServerConfig.PollInterval":     fmt.Sprintf("Default: %d ms.", launcher.DefaultPoll.Milliseconds()),
		"UniqueOpts.TTL":                map[time.Duration]string{6 * time.Hour: "Default: six hours."}[dedup.DefaultTTL],
		"Config.PayloadLimit":           fmt.Sprintf("at most job.MaxPayloadLimit (%d MiB)", job.MaxPayloadLimit>>20),
		"Config.RepeatFor":              fmt.Sprintf("Default: %s;", seconds(client.DefaultRepeatFor)),
		"MainConfig.RedisURL":           "or redis://127.0.0.1:6379/0.",
	} {
		require.NotEmpty(t, want, field)
		require.Contains(t, fields[field], want, field)
	}
	require.Contains(t, fields["Config.PayloadLimit"], fmt.Sprintf("Default: %d MiB.", job.DefaultPayloadLimit>>20))
}
