package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
)

// farAway is the round trip that is added: that of a Redis in another building, or behind a cloud's load
// balancer.
const farAway = time.Millisecond

var rttMeasure = measurement{
	name:  "rtt",
	title: "Draining a queue that is a millisecond away",
	short: "How fast one worker process empties a full queue when each round trip to Redis takes a millisecond",
	what: fmt.Sprintf("The drain, through a proxy that delays all bytes by %v each way and does not limit the rate: what is sent "+
		"together arrives together. The round trip is measured by PING through the proxy.", farAway/2),
	read: "Compare the figures with the concurrency divided by the round trip. That is the maximum for a worker that needs one " +
		"round trip for each job and waits for it before the next. A worker that takes and settles jobs " +
		"in batches, in the background, may be above it.",
	unused:  []string{"profile"},
	metrics: []report.Metric{{Name: "jobs/s", Unit: "jobs/s", Plot: true, Log: true}},
	run:     rtt,
}

// moveAway returns the URL of the bench's Redis as one that is far away. The caller calls back.
func (b *bench) moveAway(ctx context.Context) (far string, back func(), err error) {
	near, err := driver.ParseURL(b.redis.url, driver.ForPrefix(b.prefix))
	if err != nil {
		return "", nil, err
	}
	addr, err := b.address(ctx, near)
	if err != nil {
		return "", nil, err
	}
	proxy, err := startDelayProxy(near.Network, addr, farAway/2)
	if err != nil {
		return "", nil, err
	}
	if far, err = farURL(b.redis.url, near, addr, proxy.addr()); err != nil {
		proxy.close()
		return "", nil, err
	}
	return far, proxy.close, nil
}

func rtt(ctx context.Context, b *bench, r *report.Result) error {
	far, back, err := b.moveAway(ctx)
	if err != nil {
		return err
	}
	defer back()
	trip, err := roundTrip(ctx, far)
	if err != nil {
		return err
	}
	b.say("  a round trip takes %s ms", report.Figure(trip.Seconds()*1000))

	task := subject.Task{Measure: "drain", URL: far, Concurrency: b.pick(b.concurrency, defaultConcurrency, defaultConcurrency)}
	var turns []turn
	for _, who := range b.belays() {
		task.Jobs = b.size(50_000, 200_000)
		turns = append(turns, b.farTurn(r, who, task))
	}
	for _, who := range b.able(r) {
		task.Jobs = b.peerSize(who, 10_000, 50_000)
		turns = append(turns, b.farTurn(r, who, task))
	}
	if err := b.rounds(ctx, r, b.repeats(2, 5), turns); err != nil {
		return err
	}
	bound := report.Row{
		Subject: "concurrency / round trip", Kind: report.Floor, Metric: "jobs/s",
		Settings: fmt.Sprintf("%d / %s ms", task.Concurrency, report.Figure(trip.Seconds()*1000)),
	}
	r.Add(bound, float64(task.Concurrency)/trip.Seconds())
	return nil
}

// address returns the address of the server that serves the bench: with sentinels, or in a Cluster, that of the
// bench's own connection.
func (b *bench) address(ctx context.Context, near *driver.URL) (string, error) {
	if near.Kind == driver.KindServer {
		return near.Addrs[0], nil
	}
	reply := b.look.Do(ctx, driver.Command("CLIENT", "INFO"))[0]
	text, _ := reply.Value.(string)
	for _, field := range strings.Fields(text) {
		if addr, is := strings.CutPrefix(field, "laddr="); is {
			return addr, nil
		}
	}
	return "", errors.Join(errors.New("CLIENT INFO does not tell the address of this Redis"), reply.Err)
}

// farURL returns a URL with the address of a proxy before the server at addr in place of the URL's own.
func farURL(text string, near *driver.URL, addr, proxy string) (string, error) {
	parts, err := driver.Structure(text)
	if err != nil {
		return "", err
	}
	query := parts.Query()
	for _, name := range []string{"db", "addr", "master_set", "sentinel_user", "sentinel_password_file"} {
		query.Del(name)
	}
	far := url.URL{Scheme: "redis", User: parts.User, Host: proxy, Path: "/" + strconv.Itoa(near.DB)}
	if near.TLS != nil {
		far.Scheme = "rediss"
		if host, _, err := net.SplitHostPort(addr); err == nil && !query.Has("server_name") {
			query.Set("server_name", host)
		}
	}
	far.RawQuery = query.Encode()
	return far.String(), nil
}

// farTurn is one contender's drain through the proxy.
func (b *bench) farTurn(r *report.Result, who contender, task subject.Task) turn {
	return b.turn(r, who, fmt.Sprintf("concurrency %d", task.Concurrency), task, func(f found) (map[string]float64, string) {
		return rate(map[string]float64{"jobs/s": float64(task.Jobs) / f.Seconds}, "jobs/s")
	})
}

// roundTrip returns the median time of a PING.
func roundTrip(ctx context.Context, url string) (time.Duration, error) {
	const pings = 300
	client, err := goredisdriver.Open(url)
	if err != nil {
		return 0, err
	}
	defer func() { _ = client.Close() }()
	var took []float64
	for range pings {
		began := time.Now()
		if err := client.Do(ctx, driver.Command("PING"))[0].Err; err != nil {
			return 0, fmt.Errorf("ping through the proxy: %w", err)
		}
		took = append(took, time.Since(began).Seconds())
	}
	return time.Duration(report.Median(took) * float64(time.Second)), nil
}
