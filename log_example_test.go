package belay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"strings"

	"github.com/belayq/belay"
)

// The server and its handlers log to the program's logger, handlers with the fields of their run: here at
// level debug, and with arguments in which secrets are hidden.
func ExampleServerConfig() {
	type Charge struct{ Card string }
	charge := belay.Define[Charge]("Charge", belay.Idempotent()) // the bank knows a charge by its job's jid

	// Without what is another each time.
	options := &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey, "identity", "took_ms", "version", "redis":
			return slog.Attr{}
		}
		return a
	}}
	hidden := func(_ string, args json.RawMessage) json.RawMessage {
		return bytes.ReplaceAll(args, []byte("4711"), []byte("****"))
	}

	url, stopRedis := exampleRedis()
	defer stopRedis()
	ctx, stop := context.WithCancel(context.Background())
	client, err := belay.Open(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	var lines bytes.Buffer // a real worker logs to os.Stderr
	server, err := belay.NewServer(client, belay.ServerConfig{
		Logger: slog.New(slog.NewTextHandler(&lines, options)), LogArgs: true, Redact: hidden,
	})
	if err != nil {
		log.Fatal(err)
	}
	charge.Handle(server, func(ctx context.Context, _ Charge) error {
		defer stop() // a real worker goes on
		belay.Log(ctx).Info("asking the bank")
		return belay.Discard(errors.New("it said no"))
	})
	_, _ = charge.Enqueue(ctx, client, Charge{Card: "4711"}, belay.JID("6b8f0e5d1c2a"))
	fmt.Println(server.Run(ctx))
	for line := range strings.Lines(lines.String()) {
		if strings.Contains(line, "jid=") { // not those of the server's start and stop
			fmt.Print(line)
		}
	}
	// Unordered output:
	// level=INFO msg="asking the bank" jid=6b8f0e5d1c2a class=Charge queue=default attempt=1
	// level=WARN msg="run failed" error="it said no" jid=6b8f0e5d1c2a class=Charge queue=default attempt=1 max_attempts=26 exit=discarded
	// level=DEBUG msg=run error="it said no" args="[\"****\"]" jid=6b8f0e5d1c2a class=Charge queue=default exit=discarded
	// <nil>
}
