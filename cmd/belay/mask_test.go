package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
)

// hideous fills every place with a job of class Card, an entry that cannot be read, and a job with an encrypted
// argument. Their secrets contain S3cr3t and c1phert3xt.
func hideous(h *house) {
	card := `{"class":"Card","args":["S3cr3t",{"a":"S3cr3t"}],"jid":"j%d","queue":"mail","retry":true,"unique_args":["S3cr3t"],` +
		`"meta":{"a":"S3cr3t"},"own":"S3cr3t","tags":["vip"],"error_class":"E","error_message":"declined"}`
	sealed := `{"class":"Charge","args":[7,"belay:enc:1:last:k1:c1phert3xt"],"jid":"s%d","queue":"mail","retry":true,"encrypt":true}`
	for n, set := range []string{"schedule", "retry", "dead"} {
		score := fmt.Sprint(4000000000 + n)
		h.do("ZADD", h.key(set), score, fmt.Sprintf(card, n), score, fmt.Sprintf(sealed, n), score, "unreadable S3cr3t")
	}
	h.do("SADD", h.key("queues"), "mail")
	h.do("LPUSH", h.key("queue:mail"), fmt.Sprintf(card, 8), fmt.Sprintf(sealed, 8), "unreadable S3cr3t")
}

// commandsThatShow show the arguments of these jobs.
var commandsThatShow = [][]string{
	{"dead"}, {"retries"}, {"scheduled"}, {"list", "dead"}, {"list", "queue", "mail"}, {"queues", "list", "mail"},
	{"dead", "find", "j2", "s2"}, {"retries", "find", "j1", "s1"}, {"scheduled", "find", "j0", "s0"}, {"queues", "find", "mail", "j8", "s8"},
	{"find", "j2"}, {"find", "s2"}, {"find", "j8"}, {"find", "--queue", "mail"}, {"periodic"}, {"periodic", "list"},
}

func TestMaskedAndEncryptedArgumentsAreShownNowhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	hideous(h)
	require.Zero(t, h.invoke("", "periodic", "add", "nightly", "0 3 * * *", "Card", `"S3cr3t"`).code)
	for _, command := range commandsThatShow {
		for _, more := range [][]string{{"--mask", "Other,Card"}, {"--mask", "Other", "--mask", "Card", "--json"}} {
			got := h.invoke("", append(append([]string{}, command...), more...)...)
			require.Zero(t, got.code, "%v: %s", command, got.errs)
			require.NotContains(t, got.out+got.errs, "S3cr3t", "%v %v", command, more)
			require.NotContains(t, got.out+got.errs, "c1phert3xt", "%v %v", command, more)
			require.NotEmpty(t, got.out, command)
		}
	}
	dead := h.invoke("", "dead", "--json", "--mask", "Card").out
	require.Contains(t, dead, `"args":["[masked]"]`)
	require.Contains(t, dead, `"args":[7,"[encrypted, key k1]"]`)
	require.Contains(t, h.invoke("", "dead", "find", "s2").out, `args         [7,"[encrypted, key k1]"]`)
	require.Contains(t, h.invoke("", "dead").out, "S3cr3t", "without a mask all is shown")

	var entry inspect.Entry
	require.NoError(t, json.Unmarshal([]byte(h.invoke("", "dead", "find", "j2", "--json", "--mask", "Card").out), &entry))
	require.Empty(t, entry.Details.Meta)
	require.Equal(t, []string{"vip"}, entry.Details.Tags)
	require.Equal(t, "declined", entry.ErrorMessage)
	require.JSONEq(t, `{"class":"Card","args":["[masked]"],"jid":"j2","queue":"mail","retry":true,"unique_args":"[masked]","meta":"[masked]",`+
		`"own":"[masked]","tags":["vip"],"error_class":"E","error_message":"declined"}`, string(entry.Details.Payload))
}

// A search that finds a job by its arguments tells what they are, one guess after the other.
func TestNoSearchFindsWhatIsHidden(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	hideous(h)
	ids := func(args ...string) (found []string) {
		for line := range strings.Lines(h.invoke("", append([]string{"dead", "--json"}, args...)...).out) {
			var entry inspect.Entry
			require.NoError(t, json.Unmarshal([]byte(line), &entry))
			found = append(found, entry.ID)
		}
		return found
	}
	require.Len(t, ids("--text", "s3cr3t"), 2, "the job, and the entry that cannot be read")
	require.Empty(t, ids("--text", "s3cr3t", "--mask", "Card"))
	require.Empty(t, ids("--text", "c1phert3xt"))
	require.Empty(t, ids("--text", "[masked]", "--mask", "Card"))
	require.Equal(t, []string{"j2"}, ids("--text", "declined", "--mask", "Card"), "errors are no arguments")
	require.Equal(t, []string{"j2"}, ids("--text", "vip", "--mask", "Card"))
}

func TestAMaskMustNameAClass(t *testing.T) {
	t.Parallel()
	for _, command := range append([][]string{{"web", "--addr", "127.0.0.1:0"}}, commandsThatShow...) {
		for _, mask := range []string{"", "Card,"} {
			got := invoke("", append(append([]string{}, command...), "--mask", mask)...)
			require.Equal(t, exitUsage, got.code, command)
			require.Contains(t, got.errs, "--mask: it must name a class", command)
		}
	}
}

func TestTheEnvironmentMasks(t *testing.T) {
	h := newHouse(t)
	hideous(h)
	t.Setenv(maskVariable, "Other, Card")
	require.NotContains(t, h.invoke("", "dead", "--json").out, "S3cr3t")
	require.Contains(t, h.invoke("", "dead", "--json", "--mask", "Other").out, "S3cr3t", "the flag goes before")
}
