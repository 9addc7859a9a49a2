package drivertest

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Cluster is a Redis Cluster. Its Servers are nodes: at first the primaries are in front.
type Cluster struct{ Servers []*Server }

// slots is how many slots a Cluster has.
const slots = 16384

// StartCluster starts a Redis Cluster of so many nodes, with args added to the command line of each, and
// returns when all of them agree about all slots. Three nodes, or all if there are fewer, are primaries with
// equal shares of the slots; the others are their replicas. A primary that is silent for a second is replaced.
// All of it ends with the test.
func StartCluster(t testing.TB, nodes int, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	primaries := min(3, nodes)
	var buses []string
	for range nodes {
		_, bus, _ := net.SplitHostPort(FreeAddr(t))
		buses = append(buses, bus)
		c.Servers = append(c.Servers, Start(t, append([]string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-port", bus, "--repl-diskless-sync-delay", "0",
			"--cluster-replica-validity-factor", "0",
		}, args...)...))
	}
	for i, node := range c.Servers {
		mustDo(t, node, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)) // or they would settle it among themselves, which takes seconds
		if i < primaries {
			mustDo(t, node, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(slots*i/primaries), strconv.Itoa(slots*(i+1)/primaries-1))
		}
		if i > 0 {
			host, port, _ := net.SplitHostPort(node.Addr())
			mustDo(t, c.Servers[0], "CLUSTER", "MEET", host, port, buses[i])
		}
	}
	c.await(t, "cluster_known_nodes:"+strconv.Itoa(nodes))
	for i, node := range c.Servers[primaries:] {
		mustDo(t, node, "CLUSTER", "REPLICATE", c.Servers[i%primaries].Node(t))
	}
	c.await(t, "cluster_state:ok")
	for _, node := range c.Servers[primaries:] {
		awaitReplica(t, node)
	}
	return c
}

// await waits until CLUSTER INFO of each node has a line.
func (c *Cluster) await(t testing.TB, line string) {
	t.Helper()
	for _, node := range c.Servers {
		Eventually(t, func() bool {
			info, _ := node.do("CLUSTER", "INFO").(string)
			return slices.Contains(strings.Split(info, "\r\n"), line)
		}, startTimeout, 20*time.Millisecond, "a node of the Cluster has "+line)
	}
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
