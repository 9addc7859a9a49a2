package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// spellings are payloads that are in order, though no program would write them so again: a library that reads
// one and writes it anew makes other bytes of it. %s is the jid.
var spellings = []string{
	`{"class":"Odd","jid":"%s","args":[],"queue":"odd","retry":true}`,
	`  {  "class" : "Odd" , "jid" : "%s" , "args" : [ 1 , 2 ] }  `,
	"{\n\t\"class\":\"Odd\",\r\n\t\"jid\":\"%s\",\n\t\"args\":[\n\t]\n}\n",
	`{"args":[{"b":1,"a":2}],"jid":"%s","class":"Odd"}`,
	`{"cl\u0061ss":"Odd","\u006aid":"%s","args":[]}`,
	`{"class":"\u004fdd","jid":"%s","args":["\u00e9","é"]}`,
	`{"class":"Odd","jid":"%s","args":["\/","<&>","\u003c"]}`,
	`{"class":"Odd","jid":"%s","args":["\ud83d\ude00","😀"]}`,
	`{"class":"Odd","jid":"%s","args":["\ud800"]}`,
	`{"class":"Odd","jid":"%s","args":["\u0000\u001f"]}`,
	`{"class":"Odd","jid":"%s","args":["\u2028` + "\u2028" + `"]}`,
	`{"class":"Odd","jid":"%s","args":[1e2,1E+2,100.0,-0,-0.0,1e-400,1e400]}`,
	`{"class":"Odd","jid":"%s","args":[9007199254740993,123456789012345678901234567890]}`,
	`{"class":"Odd","jid":"%s","args":[0.1000000000000000055511151231257827]}`,
	`{"class":"Even","class":"Odd","jid":"%s","args":[]}`,
	`{"class":"Odd","jid":"other","args":[1],"args":[2],"jid":"%s"}`,
	`{"class":"Odd","jid":"%s","args":[{"k":1,"k":2}]}`,
	`{"class":"Odd","jid":"%s","args":[],"x_future":{"deep":[[[[[[]]]]]],"n":1.0},"":""}`,
	`{"class":"Odd","jid":"%s","args":[],"created_at":1e9,"enqueued_at":"yesterday"}`,
	`{"class":"Odd","jid":"%s","args":[],"created_at":1795244073797,"enqueued_at":null}`,
	`{"class":"Odd","jid":"%s","args":[],"retry":"7"}`,
	`{"class":"Odd","jid":"%s","args":[],"retry":0}`,
	`{"class":"Odd","jid":"%s","args":[],"retry":false,"dead":false}`,
	`{"class":"Odd","jid":"%s","args":[],"queue":"another"}`,
	`{"class":"Odd","jid":"%s","args":[],"tags":null,"cattr":{},"locale":""}`,
	`{"class":"Odd","jid":"%s","args":[],"retry_count":0,"failed_at":1.5,"error_message":"\u2620","error_class":"E"}`,
	`{"class":"Odd","jid":"%s","args":[],"at":1795244073.5}`,
	`{"class":"Odd","jid":"%s","args":["` + strings.Repeat("é", 50_000) + `"]}`,
	`{"class":"Odd","jid":"%s","args":[` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `]}`,
	`{"class":"Odd","jid":"%s","args":[]` + strings.Repeat(" ", 1000) + `}`,
}

// Whatever way a payload is written, it is its bytes that are in hand and its bytes that are taken out: at its
// end, when it is brought back from a dead worker, and when it fails. Nothing of it stays behind and runs again
// with the next worker.
func TestHoweverAPayloadIsWrittenItEndsOnce(t *testing.T) {
	t.Parallel()
	eachClientAtOnce(t, func(t *testing.T, s *site) {
		book := newLedger(t)
		all := strconv.Itoa(len(spellings))
		jids := make([]string, len(spellings))
		payloads := make(map[string]string)
		s.do("SADD", s.keys.Queues(), "odd")
		for n, spelling := range spellings {
			jids[n] = newJID()
			payloads[jids[n]] = fmt.Sprintf(spelling, jids[n])
			s.do("LPUSH", s.keys.Queue("odd"), payloads[jids[n]])
		}
		flags := append(fast, "-q", "odd", "-c", all, "--exec")
		victim := s.work(append(flags, book.exec("Odd", "-for", "1h"))...)
		for _, jid := range jids {
			book.awaitStart(jid, 1)
		}
		victim.kill()
		second := s.work(append(flags, book.exec("Odd", "-for", "1ms"))...)
		for _, jid := range jids {
			again := book.awaitStart(jid, 2)
			require.Equal(t, string(book.starts(jid)[0].Input), string(again.Input))
			require.Contains(t, payloads[jid], string(again.Input))
		}
		eventually(t, "all to be counted", func() bool { return s.text(s.keys.Processed()) == all })
		for _, p := range []*process{victim, second} {
			require.Empty(t, s.list(s.keys.Working("odd", p.identities()[0])))
		}
		second.kill()
		third := s.work(append(flags, book.exec("Odd", "-for", "1ms"))...)
		third.awaitLog("recovered") // from the second, which had nothing
		last := s.push("Odd", "odd", "[]")
		book.awaitEnd(last)
		require.Len(t, book.starts(""), 2*len(spellings)+1, "something ran again")
		require.Empty(t, s.text(s.keys.Failed()))
		require.Empty(t, s.set(s.keys.Dead()))
		require.Empty(t, s.set(s.keys.Retry()))
	})
}
