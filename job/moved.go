package job

// MovedTo returns the edits for a job that an operator moves to another queue. Wherever the payload names a
// queue for a later run, it names the new one: in retry_queue, and for an ActiveJob in its own queue_name, to
// which Ruby's retry_on pushes.
func (j *Job) MovedTo(queue string) []Edit {
	edits := []Edit{SetString("queue", queue)}
	if j.RetryQueue() != "" {
		edits = append(edits, SetString("retry_queue", queue))
	}
	if at, wraps := j.activeMembers(); wraps {
		if name, has := at["queue_name"]; has && isString(j.ArgsJSON()[name.start:name.end]) {
			edits = append(edits, j.inArgs(map[span]string{name: quote(queue)}))
		}
	}
	return edits
}

// ForeignLock names the Ruby gem that has locked the job, by the field that it leaves in the payload; empty for
// none. Belay does not release these locks.
func (j *Job) ForeignLock() string {
	for _, lock := range []struct {
		field field
		gem   string
	}{
		{fieldLockDigest, "sidekiq-unique-jobs"}, {fieldUniqueDigest, "sidekiq-unique-jobs"},
		{fieldUniqueFor, "Sidekiq Enterprise"}, {fieldIdempotencyKey, "GitLab"},
	} {
		if text := j.text(lock.field); !isAbsent(text) && text != "false" {
			return lock.gem
		}
	}
	return ""
}
