package link

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/logbook"
)

// wordsOf returns what a Reporter has logged: a word for each line.
func wordsOf(t *testing.T, log *bytes.Buffer) []string {
	t.Helper()
	words := map[string]string{"redis is away": "away", "redis is back": "back", "redis refuses": "refuses", "redis denies access": "denies"}
	var logged []string
	for line := range bytes.Lines(log.Bytes()) {
		var entry struct{ Message string }
		require.NoError(t, json.Unmarshal(line, &entry))
		for text, word := range words {
			if bytes.HasPrefix([]byte(entry.Message), []byte(text)) {
				logged = append(logged, word)
			}
		}
	}
	log.Reset()
	return logged
}

func TestReporter(t *testing.T) {
	t.Parallel()
	away := errors.New("connection refused")
	refusal := driver.NewServerError("WRONGTYPE it is a list")
	for name, test := range map[string]func(t *testing.T, r *Reporter, log *bytes.Buffer){
		"logs_an_outage_once_and_its_end_once_however_many_callers_fail": func(t *testing.T, r *Reporter, log *bytes.Buffer) {
			for range 100 {
				r.Fail("jobs", away)
				r.Fail("beat", away)
				time.Sleep(time.Second)
			}
			require.Equal(t, []string{"away"}, wordsOf(t, log))
			r.Succeed("beat")
			r.Succeed("poll")
			require.Empty(t, wordsOf(t, log), "not for all callers yet")
			r.Succeed("jobs")
			require.Equal(t, []string{"back"}, wordsOf(t, log))
			r.Succeed("jobs")
			require.Empty(t, wordsOf(t, log))
		},
		"logs_no_other_outage_for_late_failures_of_one": func(t *testing.T, r *Reporter, log *bytes.Buffer) {
			r.Fail("beat", away)
			r.Succeed("beat")
			require.Equal(t, []string{"away", "back"}, wordsOf(t, log))
			for range 50 {
				r.Fail("jobs", away)
				time.Sleep(time.Second)
				r.Succeed("jobs")
			}
			require.Empty(t, wordsOf(t, log))
		},
		"logs_a_second_outage_when_it_lasts": func(t *testing.T, r *Reporter, log *bytes.Buffer) {
			r.Fail("beat", away)
			r.Succeed("beat")
			wordsOf(t, log)
			for range 3 {
				r.Fail("beat", away)
				time.Sleep(lasting / 2)
			}
			require.Equal(t, []string{"away"}, wordsOf(t, log))
			r.Succeed("beat")
			require.Equal(t, []string{"back"}, wordsOf(t, log))
			time.Sleep(episode)
			r.Fail("beat", away)
			require.Equal(t, []string{"away"}, wordsOf(t, log), "at once, long after the last")
		},
		"logs_a_refusal_once_a_minute_for_each_caller": func(t *testing.T, r *Reporter, log *bytes.Buffer) {
			for range 90 {
				r.Fail("poll", refusal)
				r.Succeed("poll")
				time.Sleep(time.Second)
			}
			require.Equal(t, []string{"refuses", "refuses"}, wordsOf(t, log))
			r.Fail("beat", refusal)
			require.Equal(t, []string{"refuses"}, wordsOf(t, log))
		},
		"logs_a_full_Redis_once_a_minute_for_all_callers_and_no_outage": func(t *testing.T, r *Reporter, log *bytes.Buffer) {
			full := fmt.Errorf("register limits: %w", driver.NewServerError("OOM command not allowed when used memory > 'maxmemory'."))
			r.Fail("limits", full)
			r.Fail("wait", full)
			r.Fail("beat", away)
			r.Succeed("beat")
			require.Equal(t, []string{"refuses", "away", "back"}, wordsOf(t, log), "it takes and settles jobs meanwhile")
		},
		"logs_a_wrong_password_once_a_minute_as_an_error_and_its_end": func(t *testing.T, r *Reporter, log *bytes.Buffer) {
			denial := &driver.NotSentError{Err: driver.NewServerError("WRONGPASS invalid username-password pair or user is disabled.")}
			for range 90 {
				r.Fail("beat", denial)
				r.Fail("jobs", denial)
				r.Fail("jobs", away) // what a pipeline answers behind the first refusal
				time.Sleep(time.Second)
			}
			require.Equal(t, 2, strings.Count(log.String(), `"level":"error"`))
			require.Contains(t, log.String(), `"advice":"the user or the password`)
			require.Equal(t, []string{"denies", "denies"}, wordsOf(t, log))
			require.ErrorIs(t, r.Denied(), denial)
			r.Succeed("beat")
			require.ErrorIs(t, r.Denied(), denial, "not for all callers yet")
			r.Reach("jobs")
			require.NoError(t, r.Denied())
			require.Equal(t, []string{"back"}, wordsOf(t, log))
		},
		"logs_a_missing_permission_for_each_caller_and_counts_it_as_a_denial_while_it_lasts": func(t *testing.T, r *Reporter, log *bytes.Buffer) {
			denied := driver.NewServerError("NOPERM this user has no permissions to run the 'zadd' command")
			for range 90 {
				r.Fail("poll", denied)
				time.Sleep(time.Second)
				r.Reach("poll") // by a smaller call
				r.Succeed("beat")
				require.ErrorIs(t, r.Denied(), denied)
			}
			require.Contains(t, log.String(), `"call":"poll"`)
			require.Equal(t, []string{"denies", "denies"}, wordsOf(t, log))
			r.Fail("beat", denied)
			r.Succeed("poll")
			require.ErrorIs(t, r.Denied(), denied, "of another caller")
			r.Succeed("beat")
			require.NoError(t, r.Denied(), "at once")
			r.Fail("jobs", denied)
			time.Sleep(deniedFor + 1)
			require.NoError(t, r.Denied(), "of a caller that has nothing more to do")
		},
		"counts_a_refusal_as_a_reply": func(t *testing.T, r *Reporter, log *bytes.Buffer) {
			r.Fail("poll", away)
			r.Fail("poll", refusal)
			require.Equal(t, []string{"away", "back", "refuses"}, wordsOf(t, log))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				test(t, NewReporter(slog.New(logbook.JSON(&log, slog.LevelDebug))), &log)
			})
		})
	}
}
