package job

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAMovedJobNamesItsNewQueueWhereverItNamesOne(t *testing.T) {
	t.Parallel()
	const wrapper = `"class":"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper","wrapped":"Mail",`
	for before, want := range map[string]string{
		`{"queue":"mail","class":"A","jid":"1","args":[1.0]}`:                                                                                                    `{"queue":"go_mail","class":"A","jid":"1","args":[1.0]}`,
		`{"queue":"mail","retry_queue":"low","class":"A","jid":"1","args":[]}`:                                                                                   `{"queue":"go_mail","retry_queue":"go_mail","class":"A","jid":"1","args":[]}`,
		`{"queue":"mail","retry_queue":null,"class":"A","jid":"1","args":[]}`:                                                                                    `{"queue":"go_mail","retry_queue":null,"class":"A","jid":"1","args":[]}`,
		`{"queue":"mail",` + wrapper + `"jid":"1","args":[ {"job_class":"Mail", "job_id":"x","queue_name" : "mail","arguments":[1.0,"é",{"queue_name":"no"}]}]}`: `{"queue":"go_mail",` + wrapper + `"jid":"1","args":[ {"job_class":"Mail", "job_id":"x","queue_name" : "go_mail","arguments":[1.0,"é",{"queue_name":"no"}]}]}`,
		`{"queue":"mail",` + wrapper + `"jid":"1","args":[{"queue_name":"mine"}]}`:                                                                               `{"queue":"go_mail",` + wrapper + `"jid":"1","args":[{"queue_name":"mine"}]}`,
		`{"queue":"mail","class":"A","jid":"1","args":[{"job_id":"x","queue_name":"mine"}]}`:                                                                     `{"queue":"go_mail","class":"A","jid":"1","args":[{"job_id":"x","queue_name":"mine"}]}`,
	} {
		j, err := Parse(before)
		require.NoError(t, err)
		require.Equal(t, want, j.Patch(j.MovedTo("go_mail")...))
	}
}

func TestALockOfARubyGemIsSeenInThePayload(t *testing.T) {
	t.Parallel()
	for member, want := range map[string]string{
		``: "", `"lock":"until_executed","lock_digest":"uniquejobs:a1",`: "sidekiq-unique-jobs", `"unique_digest":"uniquejobs:a1",`: "sidekiq-unique-jobs",
		`"unique_for":600,`: "Sidekiq Enterprise", `"unique_for":false,`: "", `"idempotency_key":"resque:gitlab:duplicate:a1",`: "GitLab",
		`"lock_digest":null,`: "", `"belay_unique":{"digest":"a1"},`: "",
	} {
		j, err := Parse(`{` + member + `"class":"A","jid":"1","args":["lock_digest"]}`)
		require.NoError(t, err)
		require.Equal(t, want, j.ForeignLock(), member)
	}
}
