package job_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

func TestMeta(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]map[string]string{
		``:                               nil,
		`,"meta":{"tenant":"acme"}`:      {"tenant": "acme"},
		`,"meta":{"tenant":1}`:           nil,
		`,"meta":"x","locale":"de"`:      {"locale": "de"},
		`,"locale":null,"cattr":null`:    nil,
		`,"locale":7`:                    nil,
		`,"args":[{"locale":"de"}]`:      nil,
		`,"cattr":{"user_id":1,"a":1.0}`: {"cattr": `{"user_id":1,"a":1.0}`},
		`,"cattr":[["user_id",1]],"meta":{"locale":"en"},"locale":"de"`: {"cattr": `[["user_id",1]]`, "locale": "de"},
	} {
		j, err := job.Parse(`{"class":"A","jid":"1","args":[]` + fields + `}`)
		require.NoError(t, err)
		require.Equal(t, want, j.Meta(), fields)
	}
}

func TestMetaFieldsAreReadBack(t *testing.T) {
	t.Parallel()
	meta := map[string]string{"tenant": "acme", "locale": "de", "cattr": `{"user_id":1}`}
	edits, err := job.MetaFields(meta)
	require.NoError(t, err)
	j, err := job.Parse(`{"class":"A","jid":"1","args":[]}`)
	require.NoError(t, err)
	text := j.Patch(edits...)
	require.Contains(t, text, `"locale":"de","cattr":{"user_id":1},"meta":{"tenant":"acme"}`)
	j, err = job.Parse(text)
	require.NoError(t, err)
	require.Equal(t, meta, j.Meta())
	require.Len(t, meta, 3, "the caller's map is as it was")
	for _, text := range []string{"", "1", `"a"`, "{", `{"a":1}x`} {
		_, err := job.MetaFields(map[string]string{"cattr": text})
		require.Error(t, err, text)
	}
}
