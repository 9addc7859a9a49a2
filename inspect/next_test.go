package inspect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	batches "github.com/belayq/belay/batch"
)

// then is a payload with a field of next jobs.
func then(class, jid, args, next string) string {
	return fmt.Sprintf(`{"queue":"q","belay_then":%s,"args":%s,"class":"%s","jid":"%s"}`, next, args, class, jid)
}

func TestNextJobsAreShown(t *testing.T) {
	promises(t, map[string]func(w *world){
		"by their names, and in the whole payload": func(w *world) {
			last := `{"class":"Report","jid":"3","queue":"low","belay_after":"2","args":[ 1.0 ]}`
			payload := then("Extract", "1", "[1]", "["+then("Load", "2", "[]", "["+last+"]")+","+last+"]")
			w.do("ZADD", w.keys.Dead(), "1", payload)
			found := w.search(Query{})[0].Entry
			found.Describe()
			require.Equal(w, []NextJob{{"2", "Load", "q", "1"}, {"3", "Report", "low", "2"}, {"3", "Report", "low", "1"}}, found.Details.Next)
			require.Equal(w, "Load, Report, Report", NextNames(found.Details.Next))
			require.Equal(w, payload, string(found.Details.Payload), "every byte")
			w.do("ZADD", w.keys.Dead(), "2", last)
			found = w.search(Query{IDs: []string{"3"}})[0].Entry
			found.Describe()
			require.Equal(w, "2", found.Details.After)
		},
		"but not what a mask hides": func(w *world) {
			card := `{"class":"Card","jid":"9","args":["S3cr3t"],"meta":{"a":"S3cr3t"}}`
			deep := card
			for range batches.MaxSequence + 1 {
				deep = then("Deep", "8", "[]", "["+deep+"]")
			}
			for at, payload := range []string{
				then("Extract", "1", "[1]", "["+card+"]"),
				then("Extract", "2", "[1]", "["+then("Load", "3", "[2]", "["+card+"]")+"]"),
				then("Card", "4", `["S3cr3t"]`, "["+card+"]"),
				then("Extract", "5", "[1]", card),
				then("Extract", "6", "[1]", `["S3cr3t",`+card+`]`),
				deep,
			} {
				w.do("ZADD", w.keys.Dead(), fmt.Sprint(at), payload)
			}
			require.Contains(w, everyField(w.T, w.search(Query{})...), "S3cr3t")
			w.inspector = w.inspector.WithMask(MaskClasses("Card"))
			all := w.search(Query{})
			require.Len(w, all, 6)
			shown := everyField(w.T, all...)
			require.NotContains(w, shown, "S3cr3t")
			require.Equal(w, 3, strings.Count(shown, `"payload":{"queue":"q","belay_then":[{"`), "the rest of a payload is as it is")
			first := w.search(Query{IDs: []string{"1"}})[0].Entry
			first.Describe()
			require.Equal(w, []NextJob{{"9", "Card", "default", "1"}}, first.Details.Next)
			require.Equal(w, "[1]", string(first.Args))
		},
		"and not the text of what is encrypted": func(w *world) {
			w.do("ZADD", w.keys.Dead(), "1", then("Extract", "1", "[1]", `[{"class":"Card","jid":"2","encrypt":true,"args":[7,"belay:enc:1:last:k1:c1phert3xt"]}]`))
			shown := everyField(w.T, w.search(Query{})...)
			require.NotContains(w, shown, "c1phert3xt")
			require.Contains(w, shown, `[7,"[encrypted, key k1]"]`)
		},
		"and a hostile field harms nothing": func(w *world) {
			for at, next := range []string{"null", "1", `"x"`, "{}", "[]", "[1,null,{}]", strings.Repeat("[", 900) + strings.Repeat("]", 900)} {
				w.do("ZADD", w.keys.Dead(), fmt.Sprint(at), then("Extract", fmt.Sprint(at), "[1]", next))
			}
			all := w.search(Query{})
			require.Len(w, all, 7)
			everyField(w.T, all...)
			for _, found := range all {
				require.Empty(w, found.Entry.Details.Next)
			}
		},
	})
}
