// Package cluster joins running servers to a Redis Cluster, for tests and for the bench. It starts no server,
// because these two start and end theirs in different ways. It must not be used in programs of users.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Slots is how many slots a Cluster has.
const Slots = 16384

// A Node is a running server that was started with the Flags.
type Node struct {
	// Addr is its address, host:port, and Bus the port on which nodes talk to it.
	Addr, Bus string
	// Do sends it a command.
	Do func(ctx context.Context, words ...string) (any, error)
}

// Flags returns the arguments for the command line of a node.
func Flags(bus string) []string { return []string{"--cluster-enabled", "yes", "--cluster-port", bus} }

// Join makes a Cluster of the nodes. At most three of them, the first ones, are primaries with equal shares of
// the slots; the others are their replicas. It returns when each node knows all others and all slots, or when
// ctx ends.
func Join(ctx context.Context, nodes []Node) error {
	primaries := min(3, len(nodes))
	for i, node := range nodes {
		host, port, err := net.SplitHostPort(node.Addr)
		if err == nil { // each with an epoch of its own, or they would agree on these among themselves, which takes seconds
			_, err = node.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		}
		if err == nil && i < primaries {
			_, err = node.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(Slots*i/primaries), strconv.Itoa(Slots*(i+1)/primaries-1))
		}
		if err == nil && i > 0 {
			_, err = nodes[0].Do(ctx, "CLUSTER", "MEET", host, port, node.Bus)
		}
		if err != nil {
			return fmt.Errorf("join node %s to the Cluster: %w", node.Addr, err)
		}
	}
	if err := await(ctx, nodes, "cluster_known_nodes:"+strconv.Itoa(len(nodes))); err != nil {
		return err
	}
	for i, node := range nodes[primaries:] {
		id, err := nodes[i%primaries].Do(ctx, "CLUSTER", "MYID")
		if err == nil {
			_, err = node.Do(ctx, "CLUSTER", "REPLICATE", fmt.Sprint(id))
		}
		if err != nil {
			return fmt.Errorf("make %s a replica: %w", node.Addr, err)
		}
	}
	return await(ctx, nodes, "cluster_state:ok")
}

// await waits until CLUSTER INFO of each node has a line.
func await(ctx context.Context, nodes []Node, line string) error {
	for _, node := range nodes {
		for {
			info, err := node.Do(ctx, "CLUSTER", "INFO")
			if text, _ := info.(string); slices.Contains(strings.Split(text, "\r\n"), line) {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("node %s of the Cluster has no %s: %w", node.Addr, line, errors.Join(err, context.Cause(ctx)))
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}
