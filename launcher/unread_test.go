package launcher_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// An unreadable entry is reported once, without its text: it may be long, or secret. It dies with the reason
// and its text, and a process that starts later finds nothing of it.
func TestWhatCannotBeReadIsReportedOnce(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		const secret = "Xq7Z"
		bad := []string{
			"{", "[]", "null", `"x"`, "123", "", "\x00\x00\x00", `{"class":"A","jid":"1","args":["` + secret + "\xff" + `"]}`,
			`"` + strings.Repeat(secret, 100_000) + `"`,
		}
		for _, entry := range bad {
			r.do("LPUSH", r.keys.Queue("default"), entry)
		}
		for range 2 {
			l := r.build(r.config())
			ran := make(chan bool, 1)
			l.Handle("Good", func(context.Context, *job.Job) error { ran <- true; return nil }, launcher.Class{})
			r.push("Good", "[]")
			w := r.start(l)
			receive(t, "the job behind them", ran)
			r.eventually("all to die", func() bool { return len(r.set(r.keys.Dead())) == len(bad) })
			w.Stop()
			w.wait(t)
		}
		var dead []string
		for _, entry := range r.set(r.keys.Dead()) {
			parsed, err := job.Parse(entry)
			require.NoError(t, err)
			raw, ok := parsed.Kept()
			require.True(t, ok)
			message, _ := parsed.Text("error_message")
			require.Contains(t, message, "unreadable job: ")
			dead = append(dead, raw)
		}
		require.ElementsMatch(t, bad, dead)
		require.Equal(t, len(bad), strings.Count(r.log.String(), "moved to the dead set: unreadable payload"), r.log.String())
		require.NotContains(t, r.log.String(), secret)
		require.Equal(t, strconv.Itoa(len(bad)), r.counter(r.keys.Failed()))
		require.Empty(t, r.set(r.keys.Retry()))
	})
}

// A job whose args GitLab's size limiter has compressed runs with its args, and is retried with the payload that
// it had.
func TestACompressedPayloadRunsWithItsArgs(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		l := r.build(r.config())
		ran := make(chan string, 1)
		l.Handle("Big", func(_ context.Context, j *job.Job) error {
			ran <- j.ArgsJSON()
			return errors.New("once more")
		}, launcher.Class{})
		// Ruby: Base64.strict_encode64(Zlib::Deflate.deflate('[1,"é",{"a":[2.0]}]', 5))
		const payload = `{"class":"Big","jid":"1","args":["eF6LNtRROrxSSadaKVHJKtpIzyC2NhYAQB8GEQ=="],"compressed":true,"original_job_size_bytes":20,"retry":true}`
		r.do("LPUSH", r.keys.Queue("default"), payload)
		r.start(l)
		require.Equal(t, `[1,"é",{"a":[2.0]}]`, <-ran)
		r.eventually("it to wait for its retry", func() bool { return len(r.set(r.keys.Retry())) == 1 })
		require.Contains(t, r.set(r.keys.Retry())[0], payload[:len(payload)-1])
	})
}

// A job whose compressed args cannot be read is not run with the compressed text for its argument: it fails,
// and is retried.
func TestACompressedPayloadThatCannotBeReadFailsAndIsNotRun(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		l := r.build(r.config())
		l.Handle("Big", func(context.Context, *job.Job) error { t.Error("it ran"); return nil }, launcher.Class{})
		r.do("LPUSH", r.keys.Queue("default"), `{"class":"Big","jid":"1","args":["eJyLjgUAARUAuQ=="],"compressed":true,"retry":true}`)
		r.start(l)
		r.eventually("it to fail", func() bool { return len(r.set(r.keys.Retry())) == 1 })
		failed, err := job.Parse(r.set(r.keys.Retry())[0])
		require.NoError(t, err)
		class, _ := failed.Text("error_class")
		message, _ := failed.Text("error_message")
		require.Equal(t, "Belay::Compressed", class)
		require.Contains(t, message, "GitLab's size limiter did not write them")
	})
}

// What dies by the poller's hand pushes the oldest out of a full dead set, as what dies by a failed run does.
func TestAPollersDeadAreWithinTheLimitsOfTheWorker(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		r.do("ZADD", r.keys.Dead(), strconv.FormatInt(time.Now().Unix()-60, 10), "oldest")
		r.do("ZADD", r.keys.Retry(), "1", "null")
		cfg := r.config()
		cfg.DeadLimit = 1
		r.start(r.build(cfg))
		require.Eventually(t, func() bool { return len(r.set(r.keys.Retry())) == 0 }, patience, 10*time.Millisecond)
		dead := r.set(r.keys.Dead())
		require.Len(t, dead, 1)
		require.NotEqual(t, "oldest", dead[0])
	})
}
