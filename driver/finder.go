package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Finder finds the server of a URL of sentinels or of a Cluster. A client asks it at each dial, so every
// connection leads to the server of that moment, and a connection that was cut because its server is not the
// right one any more is followed by a right one. It keeps no connection: failovers are rare, and a connection
// that is kept would need a watch. A nil Finder is that of a server.
type Finder struct {
	url  *URL
	open func(*URL) (Client, error)

	mu      sync.Mutex
	addrs   []string // to ask; the one that answered last is first
	learned []string // of other nodes of the Cluster, by the last answer
}

// NewFinder returns the Finder for a URL. open opens a client of a node or a sentinel (see URL.Node); the
// Finder closes it when it has the reply.
func NewFinder(u *URL, open func(*URL) (Client, error)) *Finder {
	if u.Kind == KindServer {
		return nil
	}
	return &Finder{url: u, open: open, addrs: slices.Clone(u.Addrs)}
}

// maxAsked bounds how many are asked for one dial, because each needs a share of its time. The next dial begins
// with those that were not asked.
const maxAsked = 4

// Find returns the address of the server. It asks the one that answered last, then the others, each for a share
// of the time that is left: a silent one must not use it all up.
func (f *Finder) Find(ctx context.Context) (string, error) {
	f.mu.Lock()
	candidates := slices.Concat(f.addrs, f.learned)
	f.mu.Unlock()
	candidates = candidates[:min(len(candidates), maxAsked)]
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(DialTimeout)
	}
	var failures []error
	for i, asked := range candidates {
		share := time.Until(deadline) / time.Duration(len(candidates)-i+1)
		found, nodes, err := f.ask(ctx, asked, time.Now().Add(share))
		if err == nil {
			f.prefer(asked, nodes)
			return found, nil
		}
		f.postpone(asked)
		failures = append(failures, fmt.Errorf("%s: %w", asked, err))
	}
	return "", f.notFound(failures)
}

// notFound returns the error of a search. It is the servers' errors as a text, because what a sentinel refuses
// is not a refusal by the primary; but a denial stays one.
func (f *Finder) notFound(failures []error) error {
	searched := "the node of the Cluster that serves the prefix"
	if f.url.Kind == KindSentinel {
		searched = "the primary " + f.url.Name + " by its sentinels"
	}
	err := fmt.Errorf("find %s: %s", searched, strings.ReplaceAll(errors.Join(failures...).Error(), "\n", "; "))
	for _, failure := range failures {
		if advice := Denial(failure); advice != "" {
			return &AccessError{Advice: advice, Err: err}
		}
	}
	return err
}

// Doubt reports that the address found last led to no server, or to one that refuses calls because another
// serves them: the next dial asks another sentinel or node first, because this one may be wrong for long.
func (f *Finder) Doubt() {
	if f == nil {
		return
	}
	f.mu.Lock()
	first := f.addrs[0]
	f.mu.Unlock()
	f.postpone(first)
}

func (f *Finder) prefer(asked string, nodes []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	given := f.url.Addrs
	f.addrs = slices.DeleteFunc(f.addrs, func(addr string) bool { return addr == asked || !slices.Contains(given, addr) })
	f.addrs = slices.Insert(f.addrs, 0, asked)
	f.learned = slices.DeleteFunc(nodes, func(addr string) bool { return slices.Contains(f.addrs, addr) })
}

func (f *Finder) postpone(asked string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, addrs := range []*[]string{&f.addrs, &f.learned} {
		if i := slices.Index(*addrs, asked); i >= 0 {
			*addrs = append(slices.Delete(*addrs, i, i+1), asked)
		}
	}
}

// ask asks one sentinel or node. It returns the server's address, and those of all nodes.
func (f *Finder) ask(ctx context.Context, addr string, until time.Time) (found string, nodes []string, err error) {
	client, err := f.open(f.url.Node(addr))
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	question := Command("CLUSTER", "SLOTS")
	if f.url.Kind == KindSentinel {
		question = Command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", f.url.Name)
	}
	reply := client.Do(ctx, question)[0]
	switch {
	case reply.Err != nil:
		return "", nil, reply.Err
	case f.url.Kind == KindSentinel:
		found, err = namedPrimary(reply.Value)
		return found, nil, err
	}
	return primaryOf(Slot(f.url.prefix), reply.Value, addr)
}

// namedPrimary reads a sentinel's reply.
func namedPrimary(reply any) (string, error) {
	words, _ := reply.([]any)
	switch {
	case reply == nil:
		return "", errors.New("it knows no primary of that name")
	case len(words) == 2:
		return net.JoinHostPort(fmt.Sprint(words[0]), fmt.Sprint(words[1])), nil
	}
	return "", errors.New("its reply is not that of a sentinel")
}

// primaryOf reads a node's reply to CLUSTER SLOTS: ranges of slots, each with its primary and then its
// replicas.
func primaryOf(slot int64, reply any, asked string) (found string, nodes []string, err error) {
	ranges, _ := reply.([]any)
	for _, part := range ranges {
		fields, _ := part.([]any)
		if len(fields) < 3 {
			return "", nil, errors.New("its reply is not that of a node of a Cluster")
		}
		for i, node := range fields[2:] {
			addr := nodeAddr(node, asked)
			if addr != "" && !slices.Contains(nodes, addr) {
				nodes = append(nodes, addr)
			}
			first, _ := fields[0].(int64)
			last, _ := fields[1].(int64)
			if i == 0 && first <= slot && slot <= last {
				found = addr
			}
		}
	}
	if found == "" {
		return "", nil, fmt.Errorf("it knows no node that serves slot %d", slot)
	}
	return found, nodes, nil
}

// nodeAddr returns the address of a node in CLUSTER SLOTS: host, port, id, and further names. A node without a
// host is at the host that was asked.
func nodeAddr(node any, asked string) string {
	fields, _ := node.([]any)
	if len(fields) < 2 {
		return ""
	}
	host, _ := fields[0].(string)
	if host == "?" && len(fields) > 3 { // it has no name of the kind that the Cluster prefers
		names, _ := fields[3].([]any)
		for pair := range slices.Chunk(names, 2) {
			if pair[0] == "ip" {
				host, _ = pair[len(pair)-1].(string)
			}
		}
	}
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(asked)
	}
	return net.JoinHostPort(host, fmt.Sprint(fields[1]))
}

// Slots is the number of slots of a Redis Cluster. It divides them among its primaries.
const Slots = 16384

// Slot returns the slot of a Redis Cluster for the keys with a prefix, from 0 to Slots-1.
func Slot(prefix string) int64 {
	tag, _ := HashTag(prefix)
	var crc uint16 // CRC16-XMODEM
	for _, b := range []byte(tag) {
		crc ^= uint16(b) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return int64(crc % Slots)
}

// HashTag returns the part of a prefix that decides about the slot of its keys on a Redis Cluster: what is
// between its first { and the next }. ok is false if that is nothing.
func HashTag(prefix string) (tag string, ok bool) {
	_, rest, _ := strings.Cut(prefix, "{")
	tag, _, closed := strings.Cut(rest, "}")
	return tag, closed && tag != ""
}
