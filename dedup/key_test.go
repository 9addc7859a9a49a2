package dedup_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
)

func TestKeyLock(t *testing.T) {
	t.Parallel()
	t.Run("is_the_digest_of_the_documented_form", func(t *testing.T) {
		t.Parallel()
		lock, err := dedup.KeyLock("stripe:evt_123", time.Hour, "j")
		require.NoError(t, err)
		// printf '12:belay key v114:stripe:evt_123' | sha256sum
		require.Equal(t, dedup.Lock{Digest: "97228b71d0ca2f670a6c27e9c87a616c", JID: "j", Until: dedup.UntilExpired, TTL: time.Hour, Scheduled: true}, lock)
		require.True(t, lock.Kept())
	})
	t.Run("tells_all_keys_apart_also_from_classes", func(t *testing.T) {
		t.Parallel()
		of, err := dedup.Digest("a", "", []byte("[]"))
		require.NoError(t, err)
		seen := map[string]string{of: "the class a"}
		for _, key := range []string{
			"a", "A", "a ", " a", "1:a", "\x00", "\xff\xfe", "\n", "é", "e\u0301", `a","b`, strings.Repeat("a", dedup.MaxKey),
		} {
			digest, err := dedup.KeyDigest(key)
			require.NoError(t, err)
			require.Regexp(t, "^[0-9a-f]{32}$", digest)
			require.Empty(t, seen[digest], "%q", key)
			seen[digest] = key
		}
	})
	t.Run("refuses_what_holds_nothing", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			key  string
			hold time.Duration
			want string
		}{
			{"", time.Hour, "the key is empty"},
			{strings.Repeat("s3cret", 171), time.Hour, "the key is 1026 bytes long, and 1024 are allowed"},
			{"a", 0, "above 0"},
			{"a", time.Microsecond, "whole number of milliseconds"},
			{"a", dedup.MaxTTL + 1, "at most"},
		} {
			lock, err := dedup.KeyLock(c.key, c.hold, "j")
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "s3cret")
			require.True(t, lock.None())
		}
	})
}

func TestAKeptLockIsReadOnlyBeforeThePush(t *testing.T) {
	t.Parallel()
	rule := dedup.Rule{Until: dedup.UntilExpired, TTL: time.Minute}
	lock, err := rule.Lock(job.Draft{Class: "A", JID: "j"})
	require.NoError(t, err)
	require.True(t, lock.Takes(time.Hour), "also by a push for later")
	require.False(t, lock.Meets())
	prepared, err := job.Parse(`{"class":"A","jid":"j","args":[],"belay_unique":` + lock.Edit().JSON + `}`)
	require.NoError(t, err)
	read, err := dedup.ReadPrepared(prepared)
	require.NoError(t, err)
	require.Equal(t, lock, read)
	read, err = dedup.Read(prepared)
	_, unreadable := errors.AsType[*dedup.UnreadableError](err)
	require.True(t, unreadable)
	require.True(t, read.None(), "no stored job releases it")
}
