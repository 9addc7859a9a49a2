package drivertest

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/belayq/belay/internal/drivertest/cluster"
)

// A Cluster is a Redis Cluster. Its Servers are nodes: at first the primaries are in front.
type Cluster struct{ Servers []*Server }

// StartCluster starts a Redis Cluster of so many nodes, with args added to the command line of each, and
// returns when all of them agree about all slots. Three nodes, or all if there are fewer, are primaries with
// equal shares of the slots; the others are their replicas. A primary that is silent for a second is replaced.
// All of it ends with the test.
func StartCluster(t testing.TB, count int, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	var nodes []cluster.Node
	for range count {
		_, bus, _ := net.SplitHostPort(FreeAddr(t))
		flags := append(cluster.Flags(bus), "--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0", "--cluster-replica-validity-factor", "0")
		server := Start(t, append(flags, args...)...)
		c.Servers = append(c.Servers, server)
		nodes = append(nodes, cluster.Node{Addr: server.Addr(), Bus: bus, Do: server.Do})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*startTimeout)
	defer cancel()
	if err := cluster.Join(ctx, nodes); err != nil {
		t.Fatal(err)
	}
	for _, replica := range c.Servers[min(3, count):] {
		awaitReplica(t, replica)
	}
	return c
}

// URL returns the URL of the Cluster, by all of its nodes.
func (c *Cluster) URL() string { return "redis+cluster://" + strings.Join(addrs(c.Servers), ",") }

// Node returns the id of a node of a Cluster.
func (s *Server) Node(t testing.TB) string {
	t.Helper()
	id, _ := mustDo(t, s, "CLUSTER", "MYID").(string)
	return id
}

// Slot returns the slot of a key.
func (c *Cluster) Slot(t testing.TB, key string) int {
	t.Helper()
	slot, _ := mustDo(t, c.Servers[0], "CLUSTER", "KEYSLOT", key).(int64)
	return int(slot)
}

// Primary returns the node that serves a key, or nil while none does. The others answer with a redirection, and
// a frozen node not at all.
func (c *Cluster) Primary(key string) *Server {
	for _, node := range c.Servers {
		if node.do("TYPE", key) != nil {
			return node
		}
	}
	return nil
}

// AwaitPrimary returns the node that serves a key as soon as it is another one than old.
func (c *Cluster) AwaitPrimary(t testing.TB, key string, old *Server) *Server {
	t.Helper()
	var now *Server
	Eventually(t, func() bool { now = c.Primary(key); return now != nil && now != old }, 3*startTimeout, 20*time.Millisecond,
		"another node serves "+key)
	return now
}
