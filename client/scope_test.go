package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

func TestScopes(t *testing.T) {
	repeats(t, Config{RepeatFor: -1}, map[string]func(w *world){
		"are as many as receipts that are kept of what is unknown": func(w *world) {
			for range 20 {
				w.proxy.Add(faultproxy.DropReply(oncePushes))
				_, err := w.client.Push(w.Context(), RawJob{Class: "A", PushOnce: true})
				require.ErrorIs(w, err, ErrUnknown)
				w.client.awaitFree(w.T, 1)
			}
			require.Len(w, w.storedKeys(), 1)
			require.Len(w, w.queue(DefaultQueue), 20)
		},
		"are forgotten by Redis when their client ends": func(w *world) {
			_, err := w.client.Push(w.Context(), RawJob{Class: "A", PushOnce: true})
			require.NoError(w, err)
			require.Len(w, w.storedKeys(), 1)
			require.NoError(w, w.client.Close())
			require.Empty(w, w.storedKeys())
			require.NoError(w, w.client.Close())
		},
		"of a copied program are distinguished from those of its twin": func(w *world) {
			twin, err := New(w.client.Driver(), w.client.Config())
			require.NoError(w, err)
			twin.spaces[0].scopes.client = w.client.spaces[0].scopes.client
			for range 3 {
				for _, c := range []*Client{w.client, twin, twin, w.client} {
					_, err := c.Push(w.Context(), RawJob{Class: "A", PushOnce: true})
					require.NoError(w, err)
				}
			}
			require.Len(w, w.queue(DefaultQueue), 12)
			require.NotEqual(w, twin.spaces[0].scopes.client, w.client.spaces[0].scopes.client)
		},
		"say that nothing is known of a push whose number a twin has taken": func(w *world) {
			twin, err := New(w.client.Driver(), w.client.Config())
			require.NoError(w, err)
			twin.spaces[0].scopes.client = w.client.spaces[0].scopes.client
			w.proxy.Add(faultproxy.DropRequest(oncePushes))
			lost, err := w.client.Push(w.Context(), RawJob{Class: "A", JID: "lost", PushOnce: true})
			require.ErrorIs(w, err, ErrUnknown)
			_, err = twin.Push(w.Context(), RawJob{Class: "A", JID: "twin's", PushOnce: true})
			require.NoError(w, err)
			for range 2 {
				lost, err = w.client.Repeat(w.Context(), lost)
				require.ErrorIs(w, err, ErrUnknown)
				require.ErrorIs(w, err, ErrNotRepeatable)
				require.Equal(w, StatusUnknown, lost.Status)
			}
			require.Equal(w, []string{"twin's"}, w.jids(DefaultQueue))
			_, err = w.client.Push(w.Context(), RawJob{Class: "A", JID: "next", PushOnce: true})
			require.NoError(w, err)
			require.Equal(w, []string{"twin's", "next"}, w.jids(DefaultQueue))
		},
	})
}
