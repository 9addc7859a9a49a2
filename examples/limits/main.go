// Command limits sends webhooks, at most five at once for each tenant, and looks addresses up in a service that
// allows 100 calls a minute.
//
//	go run ./examples/limits                   work; start several, the limits hold among all of them
//	go run ./examples/limits -push 30          push 30 webhooks for each of two tenants, and 30 lookups
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/belayq/belay"
)

type WebhookArgs struct{ Tenant, URL string }

var (
	PerTenant = belay.Limit{Name: "webhooks", Concurrency: 5}
	Geocoder  = belay.Limit{Name: "geocoder", Rate: belay.Window(100, time.Minute)}

	Webhook = belay.Define[WebhookArgs]("Webhook", belay.Queue("webhooks"),
		belay.Limited(PerTenant, func(a WebhookArgs) string { return a.Tenant }))
	Lookup = belay.Define[string]("Lookup", belay.Queue("lookups"), belay.LimitedTo(Geocoder))

	push = flag.Int("push", 0, "how many to push")
)

func main() {
	belay.Main(func(ctx context.Context, server *belay.Server) error {
		Webhook.Handle(server, func(_ context.Context, a WebhookArgs) error {
			fmt.Println("start", a.Tenant)
			time.Sleep(50 * time.Millisecond) // the call of a.URL
			fmt.Println("end", a.Tenant)
			return nil
		})
		Lookup.Handle(server, func(_ context.Context, address string) error {
			fmt.Println("lookup", address) // after a response 429: return belay.RateLimited(30 * time.Second)
			return nil
		})
		for i := range *push {
			for _, tenant := range []string{"acme", "globex"} {
				if _, err := Webhook.Enqueue(ctx, server.Client(), WebhookArgs{tenant, "https://example.com/hook"}); err != nil {
					return err
				}
			}
			if _, err := Lookup.Enqueue(ctx, server.Client(), fmt.Sprint(i, " Main Street")); err != nil {
				return err
			}
		}
		return nil
	}, belay.MainConfig{Server: belay.ServerConfig{Queues: belay.Queues("webhooks", "lookups")}})
}
