package web

import (
	"crypto/sha1" //nolint:gosec // as the scripts do
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

// wait puts jobs of the queue mail behind those that wait at a gate already.
func (r *rig) wait(gate string, jids ...string) {
	r.Helper()
	for _, jid := range jids {
		r.do("LPUSH", r.keys.WaitingList(gate), "mail\n"+fmt.Sprintf(`{"class":"Hook","jid":%q,"queue":"mail","args":[1]}`, jid))
	}
	r.do("ZADD", r.keys.Waiting(), fmt.Sprint(time.Now().Unix()), gate)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	require.Contains(t, r.get("/limits").body, "There are no limits.")
	r.do("HSET", r.keys.Limits(), "webhooks", "5 window 100 60000 code 1700000000")
	r.do("HSET", r.keys.Gates(), "webhooks:<acme>\nr", "4")
	r.wait("webhooks:<acme>", "1", "2", "3")
	list := r.get("/limits").body
	for _, text := range []string{`href="limit?name=webhooks"`, ">100/1m<", ">code<", `data-label="Running">4<`, `data-label="Waiting">3<`} {
		require.Contains(t, list, text)
	}
	page := r.get("/limit?name=webhooks").body
	for _, text := range []string{"&lt;acme&gt;", `href="limit?name=webhooks&amp;key=%3cacme%3e"`, `value="set"`, `value="remove"`, `value="100/1m"`} {
		require.Contains(t, page, text)
	}
	require.NotContains(t, page, `value="reset"`, "it has the size of the programs")
	require.Equal(t, http.StatusNotFound, r.get("/limit?name=other").status)

	act := func(fields ...string) string {
		return r.follow(r.post("/limits", append(fields, "name", "webhooks")...)).body
	}
	require.Contains(t, act("do", "set", "concurrency", "0", "rate", "leaky:7/1s"), "webhooks: concurrency 0, rate leaky:7/1s.")
	require.Contains(t, act("do", "set", "concurrency", "", "rate", ""), "webhooks: concurrency none, rate none.")
	require.Equal(t, http.StatusBadRequest, r.post("/limits", "do", "set", "name", "webhooks", "rate", "often").status)
	require.Contains(t, r.get("/limit?name=webhooks").body, `value="reset"`)
	require.Contains(t, act("do", "reset"), "within half a minute")
	require.Contains(t, act("do", "remove"), "webhooks is removed")
	require.Contains(t, act("do", "remove"), "There is no such limit any more.")
	require.Equal(t, http.StatusBadRequest, r.post("/limits", "do", "set").status)
	require.Contains(t, r.log.String(), `"act":"set","limit":"webhooks","concurrency":"0","rate":"leaky:7/1s"`)

	require.NotContains(t, r.get("/limits").body, "Repair")
	require.Contains(t, r.get("/limits?check=1").body, `value="repair"`)
	require.Contains(t, r.follow(r.post("/limits", "do", "repair", "gate", "webhooks:<acme>")).body, "0 running (was 4)")
	require.Contains(t, r.get("/limits?check=1").body, "all counts are right")
}

func TestJobsThatWaitForALimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	gate := "webhooks:a b&c"
	var jids []string
	for n := range 40 {
		jids = append(jids, fmt.Sprintf("jid%d", n))
	}
	r.wait(gate, jids...)
	r.wait("webhooks:other", "elsewhere")
	address := "/limit?" + url.Values{"name": {"webhooks"}, "key": {"a b&c"}}.Encode()
	page := r.get(address).body
	require.Contains(t, page, "1–25 of 40")
	require.Contains(t, page, "jid24")
	require.NotContains(t, page, "elsewhere")
	require.Contains(t, r.get(address+"&page=2").body, "jid39")
	require.Contains(t, page, "job?jid=jid3&amp;in=waiting&amp;queue=webhooks%3aa%20b%26c&amp;ref=3~")
	filtered := r.get(address + "&class=Hook&text=jid7").body
	require.Contains(t, filtered, "jid7")
	require.NotContains(t, filtered, "jid8")
	require.NotContains(t, r.get(address+"&class=Other").body, "jid7")

	job := r.get("/job?jid=jid3").body
	for _, text := range []string{"waiting for a limit", "number 4 in line", `href="limit?key=a&#43;b%26c&amp;name=webhooks"`, `value="delete"`, `value="kill"`} {
		require.Contains(t, job, text)
	}
	require.NotContains(t, job, `value="retry"`)
	send := func(path string, fields ...string) string {
		return r.follow(r.post(path, append(fields, "in", "waiting", "queue", gate)...)).body
	}
	require.Contains(t, send("/act", "do", "delete", "id", "jid3"), "Deleted: 1 job.")
	require.Contains(t, send("/act", "do", "kill", "id", "jid4"), "Killed: 1 job.")
	require.Contains(t, send("/cancel", "do", "cancel", "ref", "0~x:jid5"), "Removed: the job waited")
	require.Equal(t, int64(37), r.do("LLEN", r.keys.WaitingList(gate)))
	confirm := r.get("/confirm?" + url.Values{"in": {"waiting"}, "queue": {gate}, "do": {"move"}}.Encode()).body
	require.Contains(t, confirm, "Move 37 jobs of gate webhooks:a b&amp;c?")
	require.Contains(t, confirm, "line up for their limit anew")
	require.Contains(t, send("/act", "do", "move", "all", "1", "to", "other"), "Moved: 37 jobs.")
	require.Equal(t, int64(37), r.do("LLEN", r.keys.Queue("other")))
	require.Contains(t, r.log.String(), `"act":"move","in":"waiting","to":"other","gate":"webhooks:a b&c"`)
	require.Equal(t, []string{"webhooks:other"}, strings.Fields(strings.Trim(fmt.Sprint(r.do("ZRANGE", r.keys.Waiting(), "0", "-1")), "[]")))
}

func TestASlotIsShownByItsKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	const identity = "host:1:aa"
	_, err := r.keys.Register(identity, lua.Record{Queues: []string{"mail"}, Beat: time.Second, TTL: time.Minute}).Do(t.Context(), r.client)
	require.NoError(t, err)
	r.do("HSET", r.keys.Limits(), "webhooks", "5 none 0 0 code 1700000000")
	for key, class := range map[string]string{"": "Whole", "acme": "Keyed"} {
		job := payload(class, class)
		hash := sha1.Sum([]byte(job)) //nolint:gosec // as Redis' scripts do
		r.do("LPUSH", r.keys.Working("mail", identity), job)
		r.do("HSET", r.keys.Slots(identity), hex.EncodeToString(hash[:]), "webhooks:"+key)
		r.do("HINCRBY", r.keys.Gates(), "webhooks:"+key+"\nr", "1")
	}
	page := r.get("/limit?name=webhooks").body
	require.Contains(t, page, `<td data-label="Key">acme</td>`)
	require.Contains(t, page, `<td data-label="Key"><span class="none">no key</span></td>`)
}
