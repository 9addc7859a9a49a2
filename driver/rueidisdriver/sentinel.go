package rueidisdriver

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/redis/rueidis"

	"github.com/belayq/belay/driver"
)

// throughSentinels returns options whose dialer connects to the primary that the sentinels of a user's options
// name at that moment. rueidis' own Sentinel client is not used because it re-sends commands, and because it
// keeps a connection even to a primary that was replaced.
func throughSentinels(o rueidis.ClientOption) (rueidis.ClientOption, *driver.Finder) {
	sentinel, dial := o.Sentinel, dialerOf(o)
	u := &driver.URL{Kind: driver.KindSentinel, Network: "tcp", Addrs: o.InitAddress, Name: sentinel.MasterSet}
	finder := driver.NewFinder(u, func(node *driver.URL) (driver.Client, error) {
		return New(rueidis.ClientOption{
			InitAddress: node.Addrs, Username: sentinel.Username, Password: sentinel.Password, Dialer: sentinel.Dialer,
			TLSConfig: sentinel.TLSConfig, DialCtxFn: dial,
		})
	})
	o.Sentinel, o.InitAddress, o.DialFn = rueidis.SentinelOption{}, o.InitAddress[:1], nil
	o.DialCtxFn = func(ctx context.Context, _ string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
		addr, err := finder.Find(ctx)
		if err != nil {
			return nil, err
		}
		conn, err := dial(ctx, addr, d, c)
		if err != nil {
			finder.Doubt()
		}
		return conn, err
	}
	return o, finder
}
