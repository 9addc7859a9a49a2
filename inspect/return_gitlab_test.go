package inspect

import (
	"time"

	"testing"

	"github.com/stretchr/testify/require"
)

func TestReturnFromGitLab(t *testing.T) {
	late, dead := "late:1:aa", "dead:1:aa"
	hold := func(w *world) {
		for _, process := range []string{late, dead} {
			w.do("LPUSH", w.keys.GitLabName("mail", process), `{"class":"A","jid":"`+process+`","args":[],"queue":"mail"}`)
		}
	}
	promises(t, map[string]func(w *world){
		"a process whose heartbeat comes back after the first look keeps its jobs": func(w *world) {
			hold(w)
			result, err := w.inspector.ReturnFromGitLab(w.Context(), FromGitLab{Found: func(look GitLabLook) {
				require.Equal(w, 2, look.Jobs)
				w.do("SET", w.keys.GitLabHeartbeat(late), "1", "EX", "60")
			}})
			require.NoError(w, err)
			require.Equal(w, FromGitLabResult{Recovered: 1, Lists: 1, Alive: 1}, result)
			require.Len(w, w.list(w.keys.GitLabName("mail", late)), 1)
			require.Equal(w, []string{`{"class":"A","jid":"dead:1:aa","args":[],"queue":"mail","interrupted_count":1}`}, w.list(w.keys.Queue("mail")))
		},
		"nothing moves before the doubt is over": func(w *world) {
			hold(w)
			began := time.Now()
			result, err := w.inspector.ReturnFromGitLab(w.Context(), FromGitLab{Doubt: 1500 * time.Millisecond, Found: func(GitLabLook) {
				require.Len(w, w.list(w.keys.GitLabName("mail", dead)), 1)
			}})
			require.NoError(w, err)
			require.GreaterOrEqual(w, time.Since(began), 1500*time.Millisecond)
			require.Equal(w, 2, result.Recovered)
		},
		"without such lists it does not wait": func(w *world) {
			result, err := w.inspector.ReturnFromGitLab(w.Context(), FromGitLab{Doubt: time.Hour})
			require.NoError(w, err)
			require.Equal(w, FromGitLabResult{}, result)
		},
	})
}
