package inspect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

const secretArgs = `["S3cr3t"]`

// everyField has all that an Inspector tells of entries.
func everyField(t *testing.T, found ...Found) string {
	t.Helper()
	for n := range found {
		if found[n].Entry != nil {
			found[n].Entry.Describe()
		}
	}
	text, err := json.Marshal(found)
	require.NoError(t, err)
	return string(text)
}

func TestAMaskHides(t *testing.T) {
	promises(t, map[string]func(w *world){
		"the arguments of a class under each of its names, wherever the job is": func(w *world) {
			w.inspector = w.inspector.WithMask(MaskClasses("Card"))
			for n, job := range []string{
				`{"class":"Card","args":["S3cr3t"],"jid":"%s"}`,
				`{"class":"Card","display_class":"Harmless","args":["S3cr3t"],"jid":"%s"}`,
				`{"class":"Other","display_class":"Card","args":["S3cr3t"],"jid":"%s"}`,
				`{"class":"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper","wrapped":"Card","args":[{"job_class":"Card","arguments":["S3cr3t"]}],"jid":"%s"}`,
				`{"class":"Card","args":["S3cr3t first"],"args":["S3cr3t"],"own":{"a":"S3cr3t"},"own":1,"jid":"%s"}`,
				`{"class":"Card","args":["S3cr3t"],"jid":"%s","unique_args":["S3cr3t"],"lock_args":["S3cr3t"],"meta":{"a":"S3cr3t"},"cattr":{"a":"S3cr3t"}}`,
			} {
				id := fmt.Sprintf("j%d", n)
				payload := fmt.Sprintf(job, id)
				for _, home := range []Home{Dead(), Retries(), Scheduled()} {
					w.do("ZADD", home.key(w.keys), "4000000000", payload)
				}
				w.do("SADD", w.keys.Queues(), "q")
				w.do("LPUSH", w.keys.Queue("q"), payload)
				w.do("LPUSH", w.keys.Quarantine("q"), payload)
			}
			w.process("h:1:aa", "q")
			w.do("LPUSH", w.keys.Working("q", "h:1:aa"), `{"class":"Card","args":["S3cr3t"],"jid":"held"}`)
			all := w.search(Query{})
			require.Len(w, all, 5*6+1)
			for _, found := range all {
				require.True(w, found.Entry.Masked())
				require.JSONEq(w, `["[masked]"]`, string(found.Entry.Args))
			}
			require.NotContains(w, everyField(w.T, all...), "S3cr3t")
			for entry, err := range w.inspector.Entries(w.Context(), Dead(), 0) {
				require.NoError(w, err)
				require.True(w, entry.Masked())
				got, ok, err := w.inspector.Get(w.Context(), Dead(), entry.Ref())
				require.NoError(w, err)
				require.True(w, ok)
				require.NotContains(w, everyField(w.T, got.Found()), "S3cr3t")
			}
			require.Empty(w, w.search(Query{Filter: Filter{Text: "s3cr3t"}}))
			require.Zero(w, w.act(Dead(), Delete, Selection{Filter: Filter{Text: "s3cr3t"}}).Moved, "what is not found is not deleted")
			require.Len(w, w.search(Query{Filter: Filter{Class: "Card"}}), 5*6+1)
			require.Len(w, w.set(w.keys.Dead()), 6, "the jobs stay as they are")
			require.Contains(w, strings.Join(w.set(w.keys.Dead()), " "), "S3cr3t")
		},
		"nothing of other classes": func(w *world) {
			w.inspector = w.inspector.WithMask(MaskClasses("Other"))
			payload := `{"class":"Card","args":["S3cr3t"],"jid":"1","own":"S3cr3t"}`
			w.do("ZADD", w.keys.Dead(), "1", payload)
			found := w.search(Query{Filter: Filter{Text: "S3cr3t"}})
			require.Len(w, found, 1)
			require.False(w, found[0].Entry.Masked())
			found[0].Entry.Describe()
			require.JSONEq(w, secretArgs, string(found[0].Entry.Args))
			require.Equal(w, payload, string(found[0].Entry.Details.Payload))
		},
		"results, also those of a job whose class is not known": func(w *world) {
			w.inspector = w.inspector.WithMask(MaskClasses("Card"))
			for jid, payload := range map[string]string{"known": `{"class":"Card","args":[],"jid":"known"}`, "unknown": "no JSON", "other": `{"class":"Other","args":[],"jid":"other"}`} {
				w.do("HSET", w.keys.Iteration(jid), lua.FieldState, "done", lua.FieldResult, `{"a":"S3cr3t"}`, lua.FieldJob, payload)
			}
			for jid, want := range map[string]string{"known": `"[masked]"`, "unknown": `"[masked]"`, "other": `{"a":"S3cr3t"}`} {
				found, err := w.inspector.Find(w.Context(), jid, nil)
				require.NoError(w, err)
				require.JSONEq(w, want, string(found.Tracked.Result), jid)
			}
		},
		"all bytes of entries that cannot be read": func(w *world) {
			w.do("ZADD", w.keys.Dead(), "1", "unreadable S3cr3t", "2",
				job.KeepUnreadable("also S3cr3t", "q", &job.UnreadableError{Reason: "no JSON"}, time.Now(), job.Seconds))
			require.Equal(w, 2, strings.Count(everyField(w.T, w.search(Query{})...), `"payload":"`))
			w.inspector = w.inspector.WithMask(MaskClasses("Card"))
			all := w.search(Query{})
			require.Len(w, all, 2)
			require.NotContains(w, everyField(w.T, all...), "S3cr3t")
			require.Empty(w, w.search(Query{Filter: Filter{Text: "S3cr3t"}}))
		},
		"what its function hides, as JSON in any case": func(w *world) {
			w.do("ZADD", w.keys.Dead(), "1", `{"class":"Card","args":["S3cr3t"],"jid":"1"}`)
			for given, want := range map[string]string{"3 bytes": `["3 bytes"]`, "[1,2]": "[1,2]", "": `[""]`, "\xff": `["\ufffd"]`} {
				found := w.inspectorOf(w.driver).WithMask(func(string, json.RawMessage) string { return given })
				result, err := found.Find(w.Context(), "1", nil)
				require.NoError(w, err)
				require.JSONEq(w, want, string(result.Entry.Args))
				require.True(w, result.Entry.Masked())
			}
		},
	})
}

// An encrypted argument needs no mask.
func TestAnEncryptedArgumentIsShownByTheNameOfItsKey(t *testing.T) {
	promises(t, map[string]func(w *world){
		"in its arguments and in the whole payload, and is not searched": func(w *world) {
			w.do("ZADD", w.keys.Dead(), "1", `{"class":"Card","jid":"1","encrypt":true,"args":[7, "belay:enc:1:last:k1:c1phert3xt"],"own":1.0}`)
			found := w.search(Query{})
			require.Len(w, found, 1)
			found[0].Entry.Describe()
			require.JSONEq(w, `[7,"[encrypted, key k1]"]`, string(found[0].Entry.Args))
			require.Equal(w, `{"class":"Card","jid":"1","encrypt":true,"args":[7,"[encrypted, key k1]"],"own":1.0}`, string(found[0].Entry.Details.Payload))
			require.False(w, found[0].Entry.Masked())
			require.Empty(w, w.search(Query{Filter: Filter{Text: "c1phert3xt"}}))
		},
		"and by a mask not at all": func(w *world) {
			w.do("ZADD", w.keys.Dead(), "1", `{"class":"Card","jid":"1","encrypt":true,"args":["S3cr3t", "belay:enc:1:last:k1:c1phert3xt"]}`)
			w.inspector = w.inspector.WithMask(MaskClasses("Card"))
			require.JSONEq(w, `["[masked]"]`, string(w.search(Query{})[0].Entry.Args))
		},
	})
}
