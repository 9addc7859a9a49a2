package belay_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/belayq/belay"
)

type WelcomeArgs struct{ UserID, TeamID int64 }

var Welcome = belay.Define[WelcomeArgs]("WelcomeEmail", belay.Queue("mail"), belay.Retries(5), belay.NotIdempotent("duplicate emails are acceptable"))

func main() {
	ctx := context.Background()
	client, err := belay.Open(ctx, os.Getenv("REDIS_URL"), nil)
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := Welcome.Enqueue(ctx, client, WelcomeArgs{UserID: 42, TeamID: 7})
	fmt.Println(receipt.Status, err)

	server, err := belay.NewServer(client, belay.ServerConfig{Queues: belay.Queues("mail")})
	if err != nil {
		log.Fatal(err)
	}
	Welcome.Handle(server, func(ctx context.Context, args WelcomeArgs) error {
		fmt.Println("welcome, user", args.UserID)
		server.Stop() // a real worker goes on until a signal stops it
		return nil
	})
	fmt.Println(server.RunProcess(ctx, belay.ProcessConfig{}))
}

func Example() {
	url, stopRedis := exampleRedis()
	defer stopRedis()
	_ = os.Setenv("REDIS_URL", url)
	main()
	// Output:
	// queued <nil>
	// welcome, user 42
	// <nil>
}
