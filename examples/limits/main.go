// Command limits sends webhooks, at most five at once for each tenant, and looks addresses up in a service that
// allows 100 calls a minute. Start several: the limits hold among all of them.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/belayq/belay"
)

type WebhookArgs struct{ Tenant, URL string }

var (
	PerTenant = belay.Limit{Name: "webhooks", Concurrency: 5}
	Geocoder  = belay.Limit{Name: "geocoder", Rate: belay.Window(100, time.Minute)}

	Webhook = belay.Define[WebhookArgs]("Webhook", belay.Queue("webhooks"), belay.Idempotent(),
		belay.Limited(PerTenant, func(a WebhookArgs) string { return a.Tenant }))
	Lookup = belay.Define[string]("Lookup", belay.Queue("lookups"), belay.Idempotent(), belay.LimitedTo(Geocoder))
)

func main() {
	belay.Main(func(_ context.Context, server *belay.Server) error {
		Webhook.Handle(server, func(_ context.Context, a WebhookArgs) error {
			fmt.Println("begin", a.Tenant)
			time.Sleep(20 * time.Millisecond) // the call of a.URL
			fmt.Println("end", a.Tenant)
			return nil
		})
		Lookup.Handle(server, func(_ context.Context, address string) error {
			fmt.Println("lookup", address) // if the service refuses: return belay.RateLimited(30 * time.Second)
			return nil
		})
		return nil
	}, belay.MainConfig{Server: belay.ServerConfig{Queues: belay.Queues("webhooks", "lookups")}})
}
