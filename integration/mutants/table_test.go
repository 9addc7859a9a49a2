package mutants

// A mutant is one bug, and the check that must catch it.
type mutant struct {
	name string
	// harm is the effect of the bug on jobs.
	harm  string
	edits []edit
	// pkg and run are the package and the narrowest -run of go test that includes the check.
	pkg, run string
	// caught is the full name of the test that must fail, and says is a text of its report.
	caught, says string
}

// An edit is the bug in one file: old occurs there once, and new replaces it.
type edit struct{ file, old, new string }

// bugs are mistakes of kinds that occur in job systems. Each looks like a simplification
// or an optimization.
var bugs = []mutant{
	{
		name: "take pops",
		harm: "a worker that dies loses its running jobs",
		edits: []edit{{
			"lua/take.lua", `redis.pcall('LMOVE', queue, working, 'RIGHT', 'LEFT')`, `redis.pcall('RPOP', queue)`,
		}},
		pkg: "./lua", run: "TestTake/oldest_first",
		caught: "TestTake/oldest_first_in_the_order_of_the_queues", says: "newest at the head",
	},
	{
		name: "settle does not check the owner",
		harm: "a worker that was declared dead stores a retry of a job that runs elsewhere, and counts it twice",
		edits: []edit{{
			"lua/settle.lua", `if redis.call('LREM', working, from, ARGV[arg]) == 0 then`, `if redis.call('LREM', working, from, ARGV[arg]) < 0 then`,
		}},
		pkg: "./lua", run: "TestSettle/writes_nothing_for_a_job_we_lost",
		caught: "TestSettle/writes_nothing_for_a_job_we_lost", says: "Lost:[]int(nil)",
	},
	{
		name: "retry, then acknowledge",
		harm: "between the two calls the job is in two places, and runs twice if its worker dies there",
		edits: []edit{{
			"fetch/settle.go", `	for i, r := range gathered {
		settled[i]`, `	for i, r := range gathered {
		if r.outcome.Exit() == job.ExitRetry {
			at := k.Clock.Now().Add(r.outcome.After()).UnixMicro()
			k.link.Client.Do(session.Context, driver.Command("ZADD", k.Keys.Retry(), fmt.Sprintf("%.6f", float64(at)/1e6), r.outcome.Payload()))
			r.outcome = job.Discarded(true)
		}
		settled[i]`,
		}, {
			"fetch/settle.go", `import (
`, `import (
	"fmt"
`,
		}},
		pkg: "./integration", run: "TestEveryStepIsLawful/go-redis",
		caught: "TestEveryStepIsLawful/go-redis", says: "doubled: it lies in 2 places",
	},
	{
		name: "promote removes, then pushes",
		harm: "a poller that dies between the two calls loses the job, as Ruby's does",
		edits: []edit{{
			"scheduler/promote.go", `	next := p.page(set, skip, 1)
`, `	next := p.page(set, skip, 1)
	for _, group := range groups {
		for _, one := range group.Jobs {
			taken := p.cfg.Client.Do(ctx, driver.Command("ZREM", set, one.Old))[0]
			if taken.Err != nil || taken.Value != int64(1) {
				continue
			}
			if pushed := p.cfg.Client.Do(ctx, driver.Command("LPUSH", p.cfg.Keys.Queue(group.Queue), one.New))[0]; pushed.Err != nil {
				return due, 0, nil, pushed.Err
			}
		}
	}
`,
		}},
		pkg: "./scheduler", run: "TestDeniedCommands",
		caught: "TestDeniedCommands", says: "not lost",
	},
	{
		name: "the janitor checks once",
		harm: "after a pause of Redis or of the fleet every process is declared dead, and all running jobs run again",
		edits: []edit{{
			"janitor/janitor.go", `between := max(2*s.record.Beat, j.cfg.Between) - j.cfg.Beat/10`, `between := time.Duration(0)`,
		}},
		pkg: "./janitor", run: "TestJanitorJudges/one_look_declares_no_process_dead",
		caught: "TestJanitorJudges/one_look_declares_no_process_dead", says: "[victim]",
	},
	{
		name: "a server that does not know the janitor is believed",
		harm: "after a failover that lost registrations, processes that have not come back yet are declared dead, and their jobs run again",
		edits: []edit{{
			"janitor/janitor.go", `seen.State != lua.StateAlive || `, ``,
		}},
		pkg: "./janitor", run: "TestJanitorJudges/a_server_that_does_not_know_us_breaks_our_sight",
		caught: "TestJanitorJudges/a_server_that_does_not_know_us_breaks_our_sight", says: "[victim]",
	},
	{
		name: "no process reconciles",
		harm: "if the reply to a take is lost, the job stays in that worker's list as long as the worker lives",
		edits: []edit{{
			"fetch/reconcile.go", `		c.looked = c.looked || still
`, `		c.looked = true
		clear(c.readings)
		c.toRead = nil
`,
		}},
		pkg: "./fetch", run: "TestLostReplies/a_take_whose_reply_is_lost",
		caught: "TestLostReplies/a_take_whose_reply_is_lost_strands_nothing", says: "within a few beats",
	},
	{
		name: "takes are unfair",
		harm: "a keyspace with a long queue has all processors, and the jobs of the others wait until it is empty",
		edits: []edit{{
			"fetch/take.go", `	part := processors / c.count
`, `	part := processors
`,
		}},
		pkg: "./fetch", run: "TestKeyspacesWithJobsShareTheProcessors/go-redis/in_equal_parts",
		caught: "TestKeyspacesWithJobsShareTheProcessors/go-redis/in_equal_parts", says: "elements differ",
	},
	{
		name: "a decision by another shard's clock",
		harm: "where two Redis' clocks differ, jobs expire too early or run too late",
		edits: []edit{{
			"launcher/run.go", `case limited && s.clock.Now().After(expires):`, `case limited && s.launcher.shards[0].clock.Now().After(expires):`,
		}},
		pkg: "./launcher", run: "TestAJobsTimesAreComparedWithTheClockOfItsShard",
		caught: "TestAJobsTimesAreComparedWithTheClockOfItsShard", says: "expires by the clock of its own shard",
	},
	{
		name: "an unacked settle occupies a processor",
		harm: "an outage of one keyspace stops the work for all others",
		edits: []edit{{
			"fetch/run.go", `awaitingStart <= s && s <= finished`, `awaitingStart <= s && s <= unacked`,
		}},
		pkg: "./fetch", run: "TestASilentKeyspaceDoesNotStopTheOthers/go-redis/an_unacked_settle",
		caught: "TestASilentKeyspaceDoesNotStopTheOthers/go-redis/an_unacked_settle_occupies_no_processor", says: "waited in vain for runs",
	},
	{
		name: "an unknown entry is run at first sight",
		harm: "a job that an idle wait is just bringing runs twice",
		edits: []edit{{
			"fetch/reconcile.go", `	still := k.operations == 0
`, `	still := true
`,
		}, {
			"fetch/reconcile.go", `len(c.toRead) == 0 || k.operations > 0 ||`, `len(c.toRead) == 0 ||`,
		}},
		pkg: "./fetch", run: "TestLook/adopts_nothing_that_a_wait_is_just_bringing",
		caught: "TestLook/adopts_nothing_that_a_wait_is_just_bringing", says: "Should be empty",
	},
	{
		name: "go-redis sends calls again",
		harm: "a call whose reply was lost is executed twice: counters, pushes, takes",
		// It is kept from that twice over: by its setting, and by the kind of its commands.
		edits: []edit{{
			"driver/goredisdriver/options.go", `o.MaxRetries = -1 // 0 would mean three`, `o.MaxRetries = 0`,
		}, {
			"driver/goredisdriver/do.go", `// prepare spells the call out.`, `func (c *command) NoRetry() bool { return false }

// prepare spells the call out.`,
		}},
		pkg: "./driver", run: "TestConformance/go-redis/.*/a_lost_reply_is_uncertain",
		caught: "TestConformance/go-redis/redis/a_lost_reply_is_uncertain_and_executed_once", says: "An error is expected but got nil",
	},
	{
		name: "rueidis sends calls again",
		harm: "the same, with the other client",
		edits: []edit{{
			"driver/rueidisdriver/client.go", `o.DisableRetry = true`, `o.DisableRetry = false`,
		}, {
			"driver/rueidisdriver/do.go", `b.Arbitrary(call.Args...).Build()`, `b.Arbitrary(call.Args...).Build().ToRetryable()`,
		}, {
			"driver/rueidisdriver/do.go", `Args(call.Args...).Build()`, `Args(call.Args...).Build().ToRetryable()`,
		}},
		pkg: "./driver", run: "TestConformance/rueidis/.*/a_lost_reply_is_uncertain",
		caught: "TestConformance/rueidis/redis/a_lost_reply_is_uncertain_and_executed_once", says: "An error is expected but got nil",
	},
	{
		name: "a requeue counts as a crash",
		harm: "three deploys move a harmless job to the dead set",
		edits: []edit{{
			"lua/settle.lua", `redis.call('RPUSH', group.queue, ARGV[arg])`, `redis.call('RPUSH', group.queue, (string.gsub(ARGV[arg], '}$', ',"interrupted_count":1}')))`,
		}},
		pkg: "./launcher", run: "TestStop/requeues_byte_for_byte_what",
		caught: "TestStop/requeues_byte_for_byte_what_does_not_finish_in_time", says: `"interrupted_count":1`,
	},
	{
		name: "the heartbeat stops at TERM",
		harm: "a worker that finishes its jobs after TERM is declared dead, and they run twice",
		edits: []edit{{
			"launcher/duties.go", `if d.intake && s.launcher.quiet.Load() {`, `if d.intake && s.launcher.quiet.Load() || d.name == "beat" && s.launcher.stopping.Load() {`,
		}},
		pkg: "./launcher", run: "TestTheHeartBeats",
		caught: "TestTheHeartBeatsUntilTheLastJobIsSettled", says: "it ran twice",
	},
	{
		name: "due times are truncated to seconds",
		harm: "a job runs up to a second before its time",
		edits: []edit{{
			"lua/due.lua", `redis.call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT'`, `redis.call('ZRANGEBYSCORE', set, '-inf', math.floor(now) + 1, 'LIMIT'`,
		}, {
			"lua/promote.lua", `if score and score <= now then`, `if score and math.floor(score) <= math.floor(now) then`,
		}},
		pkg: "./scheduler", run: "TestPoller/says_when_the_next",
		caught: "TestPoller/says_when_the_next_one_is_due_and_is_never_early", says: "early",
	},
	{
		name: "settle re-marshals the job",
		harm: "a payload of another program is not found in the working list: its result is not stored, and the job runs again and again",
		edits: []edit{{
			"fetch/settle.go", `	for i, r := range gathered {
		settled[i]`, `	for i, r := range gathered {
		var payload map[string]any
		_ = json.Unmarshal([]byte(r.Bytes), &payload)
		written, _ := json.Marshal(payload)
		r.Bytes = string(written)
		settled[i]`,
		}, {
			"fetch/settle.go", `import (
`, `import (
	"encoding/json"
`,
		}},
		pkg: "./launcher", run: "TestStop/requeues_byte_for_byte_what",
		caught: "TestStop/requeues_byte_for_byte_what_does_not_finish_in_time", says: "should have 6 item(s)",
	},
	{
		name: "no backoff after an error",
		harm: "while Redis is away every worker uses a whole core, and all of them call at once when it returns",
		edits: []edit{{
			"fetch/pipeline.go", `	o.until = now.Add(o.rest.Next())
`, `	o.until = now.Add(time.Microsecond)
`,
		}},
		pkg: "./integration", run: "TestOutages/killed$/go-redis",
		caught: "TestOutages/killed/go-redis", says: "CPU",
	},
	{
		name: "counters change in another step than runs",
		harm: "the counters of a killed worker are wrong for ever",
		edits: []edit{{
			"lua/settle.lua", `ran, fell = ran + ended * group.processed, fell + ended * group.failed`, `ran, fell = 0, 0`,
		}, {
			"fetch/settle.go", `	for i, r := range gathered {
		settled[i]`, `	for i, r := range gathered {
		if processed, failed := r.outcome.Counts(); processed && !failed {
			k.link.Client.Do(session.Context, driver.Command("INCR", k.Keys.Processed()))
		}
		settled[i]`,
		}},
		pkg: "./integration", run: "TestEveryStepIsLawful/go-redis",
		caught: "TestEveryStepIsLawful/go-redis", says: "counters",
	},
	{
		name: "a quarantined job runs beside others",
		harm: "when it kills its process, the other jobs count a crash with nothing else running",
		edits: []edit{{
			"lua/take_quarantined.lua", `  if type(length) == 'number' and length > 0 then
    return { 'busy' }`, `  if type(length) == 'number' and length < 0 then
    return { 'busy' }`,
		}},
		pkg: "./lua", run: "TestTakeQuarantined/goes_to_empty_hands_only",
		caught: "TestTakeQuarantined/goes_to_empty_hands_only", says: "busy",
	},
	{
		name: "recover does not check again",
		harm: "a process that wakes up after the janitor's check loses jobs that it is running",
		edits: []edit{{
			"lua/recover.lua", `  if not dead_now then`, `  if not dead_now and expiry < 0 then`,
		}},
		pkg: "./lua", run: "TestRecover/writes_nothing_while_the_process_is_alive",
		caught: "TestRecover/writes_nothing_while_the_process_is_alive", says: `State:"dead", Left:0, Moved:1`,
	},
	{
		name: "the watcher judges without its own subscription",
		harm: "after a failover, whose new primary has no subscriptions, the watcher declares the whole fleet dead",
		edits: []edit{{
			"janitor/watch.go", `		if !l.Self {`, `		if !l.Self && w == nil {`,
		}},
		pkg: "./janitor", run: "TestTheWatcherJudges/a_watcher_that_is_not_there_itself_sees_nothing",
		caught: "TestTheWatcherJudges/a_watcher_that_is_not_there_itself_sees_nothing", says: "Should be false",
	},
	{
		name: "the watcher judges without a heartbeat of its own",
		harm: "a Redis that answers reads and holds writes makes every process look absent",
		edits: []edit{{
			"janitor/watch.go", ` || beatAt < session.goneAt {`, ` || beatAt < 0 {`,
		}},
		pkg: "./janitor", run: "TestTheWatcherJudges/looks_without_a_heartbeat_of_our_own_declare_no_process_dead",
		caught: "TestTheWatcherJudges/looks_without_a_heartbeat_of_our_own_declare_no_process_dead", says: "Should be false",
	},
	{
		name: "recover does not look for the subscription again",
		harm: "a process that has subscribed again loses the jobs that it is running",
		edits: []edit{{
			"lua/recover.lua", `      and subscribers(channel) == 0
`, `      and subscribers(channel) >= 0
`,
		}},
		pkg: "./lua", run: "TestRecoverByAbsence/writes_nothing_while_its_subscription_is_there",
		caught: "TestRecoverByAbsence/writes_nothing_while_its_subscription_is_there", says: `State:"dead", Left:1, Moved:0`,
	},
	{
		name: "the lease of a watched session is not shorter",
		harm: "a process starts jobs after the instant at which its absence has declared it dead",
		edits: []edit{{
			"fetch/start.go", `	if s.watched.Load() {`, `	if s.watched.Load() && s == nil {`,
		}},
		pkg: "./fetch", run: "TestTheLeaseOfAWatchedSessionIsShorter",
		caught: "TestTheLeaseOfAWatchedSessionIsShorter", says: "Should be false",
	},
	{
		name: "a heartbeat without a script sets an expiry",
		harm: "one that comes late revives a process whose jobs others are moving, and it takes new ones",
		edits: []edit{{
			"lua/prolong.go", `"XX", "INCR", millis(by), identity),`, `"XX", "INCR", strconv.FormatInt(now.Add(by).UnixMilli(), 10), identity),`,
		}},
		pkg: "./lua", run: "TestProlong/revives_none_that_was_declared_dead",
		caught: "TestProlong/revives_none_that_was_declared_dead", says: "Should be false",
	},
	{
		name: "a lease counts from when a heartbeat was sent, however early its expiry is",
		harm: "a process starts jobs after the instant at which its absence has declared it dead",
		edits: []edit{{
			"fetch/beat.go", `	s.confirm(max(sentSinceBoot-early, `, `	s.confirm(max(sentSinceBoot, `,
		}},
		pkg: "./fetch", run: "TestALeaseCountsFromNoLaterThanTheExpiryDoes",
		caught: "TestALeaseCountsFromNoLaterThanTheExpiryDoes", says: "Should be false",
	},
	{
		name: "a heartbeat without a script does not see that the clock was set",
		harm: "a process keeps an expiry that others take for one from before the clock was set back",
		edits: []edit{{
			"fetch/beat.go", `	if early < 0 || early > `, `	if early > `,
		}},
		pkg: "./fetch", run: "TestAHeartbeatThatFindsSomethingIsFollowedAtOnceByTheScript",
		caught: "TestAHeartbeatThatFindsSomethingIsFollowedAtOnceByTheScript", says: "Not equal",
	},
	{
		name: "a lease does not end",
		harm: "a process that is cut off runs jobs after it was declared dead, beside the process that recovered them",
		edits: []edit{{
			"fetch/start.go", `	return !s.over.Load() && age < limit`, `	return !s.over.Load() && (age < limit || limit > 0)`,
		}},
		pkg: "./integration", run: "TestAWorkerThatResetsCutOffStartsNothing/go-redis",
		caught: "TestAWorkerThatResetsCutOffStartsNothing/go-redis", says: "it started something",
	},
	{
		name: "a start needs no lease",
		harm: "a process that was frozen starts jobs that run elsewhere",
		edits: []edit{{
			"fetch/start.go", `		if !k.leased(r.Session) {
`, `		if !k.leased(r.Session) && r.Session == nil {
`,
		}},
		pkg: "./fetch", run: "TestRecovery/go-redis/nothing_starts_without_a_lease",
		caught: "TestRecovery/go-redis/nothing_starts_without_a_lease", says: "Should be",
	},
	{
		name: "a handler that ends its goroutine is not noticed",
		harm: "its processor is lost, and its job counts as running as long as the process lives",
		edits: []edit{{
			"launcher/run.go", `		r := p.current.Load()
		if r == nil {
			return`, `		r := p.current.Load()
		if r != nil {
			return`,
		}},
		pkg: "./launcher", run: "TestRun/every_way_to_fail",
		caught: "TestRun/every_way_to_fail_is_a_failure_and_frees_its_processor", says: "waited in vain for 30 failures",
	},
	{
		name: "the verdict of a settle is not kept",
		harm: "a settle that is sent again after a lost reply does not find its jobs, and a done job counts as lost",
		edits: []edit{{
			"lua/settle.lua", `if held[2] then
  local answer`, `if held[2] == '' .. number .. ARGV[1] then
  local answer`,
		}},
		pkg: "./lua", run: "TestSettle/the_same_number_again",
		caught: "TestSettle/the_same_number_again_answers_the_same_and_writes_nothing", says: "Lost:",
	},
	{
		name: "any job's end frees the lock",
		harm: "a job that outlived its lock frees the lock of the next one, and a third is accepted beside it",
		edits: []edit{{
			"lua/shared/unlock.lua", `states[job] = value and string.sub(value, 2, #owner + 1) == owner and string.byte(value)`,
			`states[job] = value and owner and string.byte(value)`,
		}},
		pkg: "./integration", run: "TestLateEndFreesNoOtherLock/go-redis",
		caught: "TestLateEndFreesNoOtherLock/go-redis", says: "duplicate",
	},
	{
		name: "the lock first, then the job",
		harm: "a producer that dies between the two calls, or whose push is refused, leaves a lock that no job frees",
		edits: []edit{{
			"client/slice.go", `	var push lua.Ask[lua.Pushed]
	switch {
	case l.checked:
		push = s.keys.PushUnique(key, l.jobs)
`, `	for i := range l.jobs {
		if lock := l.jobs[i].Lock; lock != nil && key == nil {
			s.driver.Do(context.Background(), driver.Command("SET", s.keys.Lock(lock.Digest), "-"+lock.Owner+"1", "NX", "PX", "60000"))
			l.jobs[i].Lock = nil
		}
	}
	var push lua.Ask[lua.Pushed]
	switch {
	case l.checked:
		push = s.keys.PushUnique(key, l.jobs)
`,
		}},
		pkg: "./integration", run: "TestPushThatStoresNothingTakesNoLock/go-redis",
		caught: "TestPushThatStoresNothingTakesNoLock/go-redis", says: "a broken queue",
	},
	{
		name: "the mark is cleared, then the extra run is pushed",
		harm: "a worker that dies between the two calls loses the extra run",
		edits: []edit{{
			"fetch/belongings.go", `		if parsed, err := r.Job(); err == nil {
			lock.Next = dedup.Rerun(parsed, job.NewJID(), r.Queue, k.Clock.Now(), k.cfg.Unit)
		}
`, `		value, _ := k.link.Client.Do(r.Session.Context, driver.Command("GET", k.Keys.Lock(lock.Digest)))[0].Value.(string)
		if parsed, err := r.Job(); err == nil && value != "" && value[0] == 'd' {
			k.link.Client.Do(r.Session.Context, driver.Command("SETRANGE", k.Keys.Lock(lock.Digest), "0", "s"))
			k.link.Client.Do(r.Session.Context, driver.Command("LPUSH", k.Keys.Queue(r.Queue), dedup.Rerun(parsed, job.NewJID(), r.Queue, k.Clock.Now(), k.cfg.Unit).Bytes))
		}
`,
		}},
		pkg: "./integration", run: "TestRescheduleOnceIsOnce/asked_while_it_runs/go-redis",
		caught: "TestRescheduleOnceIsOnce/asked_while_it_runs/go-redis", says: `goes from state "d" to "s"`,
	},
	{
		name: "the lock is freed, then the extra run is pushed",
		harm: "between the two calls another job takes the lock, and two equal jobs wait; or the worker dies, and the extra run is lost",
		edits: []edit{{
			"lua/shared/unlock.lua", `  redis.call('SET', lock, value, 'PXAT', until_ms)
`, `  redis.call('DEL', lock)
`,
		}},
		pkg: "./integration", run: "TestRescheduleOnceIsOnce/asked_while_it_runs/go-redis",
		caught: "TestRescheduleOnceIsOnce/asked_while_it_runs/go-redis", says: "is accepted without its lock",
	},
	{
		name: "a failed run frees its lock",
		harm: "while the job waits for its retry an equal job is accepted, and both run",
		edits: []edit{{
			"lua/settle.go", `if exit.Ends() {`, `if exit.Ends() || exit == job.ExitRetry {`,
		}},
		pkg: "./integration", run: "TestLocksAreKeptThroughRetries/go-redis",
		caught: "TestLocksAreKeptThroughRetries/go-redis", says: "is freed, and the job lives on",
	},
	{
		name: "positions are compared as text",
		harm: "10/0 is less than 9/0 as text, so the run does not wait for the refused duplicate's write",
		edits: []edit{{
			"lua/shared/leave.lua", `(now[2] > was[2] or now[2] == was[2] and now[3] > was[3])`, `now[1] > was[1]`,
		}},
		pkg: "./lua", run: "TestPositions/of_the_refused",
		caught: "TestPositions/of_the_refused_are_left_with_the_lock_the_later_of_each_connection/go-redis", says: "main 10/0",
	},
	{
		name: "a repeated start returns no positions",
		harm: "the first start freed the lock and its reply was lost: the run reads a replica that lags",
		edits: []edit{{
			"lua/start.lua", `      if group.left and now ~= '' then`, `      if false then`,
		}},
		pkg: "./fetch", run: "TestPositionsThatDuplicatesLeft/go-redis/are_returned_once_more",
		caught: "TestPositionsThatDuplicatesLeft/go-redis/are_returned_once_more_when_the_reply_is_lost", says: "Not equal",
	},
	{
		name: "a digest without lengths",
		harm: "two jobs whose parts differ but concatenate to the same text count as equal, and one is refused",
		edits: []edit{{
			"dedup/digest.go", `	out = append(strconv.AppendInt(out, int64(len(s)), 10), ':')
	return append(out, s...)`, `	return append(strconv.AppendBool(out[:len(out):len(out)], true)[:len(out)], s...)`,
		}},
		pkg: "./dedup", run: "TestDigest/tells_classes_and_queues_apart",
		caught: "TestDigest/tells_classes_and_queues_apart", says: "Should be false",
	},
	{
		name: "a job that ended counts as waiting while its key is remembered",
		harm: "a job that is pushed again with its jid and its key is reported as queued, although nothing is stored",
		edits: []edit{{
			"lua/push_unique.lua", `== owner and state == '-'`, `== owner and state ~= 's' and state ~= 'd'`,
		}},
		pkg: "./client", run: "TestKey/is_remembered_after_the_job_is_gone",
		caught: "TestKey/is_remembered_after_the_job_is_gone,_and_also_for_its_own_jid", says: `"duplicate"`,
	},
	{
		name: "a due job whose lock is taken is dropped",
		harm: "an accepted job never runs, and a job that took its lock when it was scheduled is its own duplicate",
		edits: []edit{{
			"lua/promote.lua", `    if score and score <= now then
`, `    if group.locked and redis.call('GET', KEYS[tonumber(ARGV[arg + 2])]) then
      redis.call('ZREM', set, old)
    elseif score and score <= now then
`,
		}},
		pkg: "./lua", run: "TestPromoteTakesLocks/and_drops_nothing",
		caught: "TestPromoteTakesLocks/and_drops_nothing_for_those_that_are_not", says: "Not equal",
	},
	{
		name: "locks of running jobs are not renewed",
		harm: "while a run outlasts its lock, an equal job is accepted",
		edits: []edit{{
			"fetch/belongings.go", `	if !k.renew || k.session == nil {`, `	if !k.renew || k.session != nil {`,
		}},
		pkg: "./fetch", run: "TestLocksInHand/go-redis/are_renewed",
		caught: "TestLocksInHand/go-redis/are_renewed_at_each_beat_all_of_them", says: "waited in vain for the renewals",
	},
	{
		name: "a bound job is pushed to any shard",
		harm: "each shard has a lock of its own, and a unique job is accepted once for each of them",
		edits: []edit{{
			"client/route.go", `	if len(keys) == 0 {
`, `	if len(keys) <= 1 {
`,
		}},
		pkg: "./client", run: "TestAnEqualJobIsRefused",
		caught: "TestAnEqualJobIsRefusedWhereverItIsPushed/go-redis", says: `expected: "duplicate"`,
	},
	{
		name: "an uncertain push is sent to another shard",
		harm: "a job whose push lost its reply is stored on two shards, and runs twice",
		edits: []edit{{
			"client/route.go", `ctx.Err() != nil || !absent(err) {`, `ctx.Err() != nil {`,
		}},
		pkg: "./client", run: "TestAnUncertainPush",
		caught: "TestAnUncertainPushIsSentToNoOtherShard/go-redis", says: "it is stored once",
	},
	{
		name: "a coalesced push does not wait for the reply",
		harm: "a push is reported as stored although Redis refused it or the reply was lost",
		edits: []edit{{
			"client/coalesce.go", `	default:
		<-g.sent
`, ``,
		}},
		pkg: "./client", run: "TestPushesThatShareACall/are_certainly_not_stored",
		caught: "TestPushesThatShareACall/are_certainly_not_stored_together_when_Redis_refuses/go-redis", says: "out of memory",
	},
	{
		name: "one deadline for a whole pass",
		harm: "over a long round trip the calls of a pass never fit, and the jobs of a dead worker stay lost",
		edits: []edit{{
			"launcher/duties.go", `	if d.calls {
		return d.pass(ctx)
	}
`, `	if d.calls {
		bounded, cancel := context.WithTimeout(ctx, s.launcher.vitalsDeadline())
		defer cancel()
		return d.pass(bounded)
	}
`,
		}},
		pkg: "./launcher", run: "TestJobsOfADeadProcessComeBackOverLongRoundTrips/500ms/go-redis",
		caught: "TestJobsOfADeadProcessComeBackOverLongRoundTrips/500ms/go-redis", says: "waited in vain for all jobs to be in their queue",
	},
	{
		name: "pages of a fixed size",
		harm: "a page that misses its deadline, or for which Redis closes the connection, is requested again and again, and no large job moves",
		edits: []edit{{
			"link/pace.go", `	return p.bytes
}`, `	return MaxPage
}`,
		}},
		pkg: "./link", run: "TestPaceAsksForLess",
		caught: "TestPaceAsksForLessAndWaitsLongerAfterFailures", says: "expected: 4096",
	},
	{
		name: "a cancelled job is one that failed",
		harm: "a job that an operator has cancelled is retried for three weeks",
		edits: []edit{{
			"launcher/run.go", `	if r.cancelled() && !r.lost() || r.shard.marks.Binds(r.job) {`, `	if r.cancelled() && err == nil {`,
		}},
		pkg: "./launcher", run: "TestCancelEndsARunningJob/go-redis",
		caught: "TestCancelEndsARunningJob/go-redis", says: "waited in vain for all to be counted",
	},
	{
		name: "a mark binds a jid for ever",
		harm: "a job that is pushed after another one with its jid was cancelled is dropped",
		edits: []edit{{
			"lua/marks.go", `return !dated || !created.After(marked.Add(time.Microsecond))`, `return !dated || !created.After(marked.Add(KeepMarks))`,
		}},
		pkg: "./lua", run: "TestMarks/bind_what",
		caught: "TestMarks/bind_what_was_created_before_and_nothing_created_later/go-redis", says: "a later job of the same jid",
	},
	{
		name: "marks are ordered by the clock alone",
		harm: "after a step of Redis' clock no worker reads new marks, and a job that is reported as stopping runs on",
		edits: []edit{{
			"lua/shared/newer_mark.lua", `math.max(time[1] * 1000000 + time[2], tonumber(redis.call('ZSCORE', marks, '') or '0') + 1)`, `time[1] * 1000000 + time[2]`,
		}},
		pkg: "./lua", run: "TestMarks/are_newer",
		caught: "TestMarks/are_newer_than_those_before_though_the_clock_was_set_back/go-redis", says: "Should be true",
	},
	{
		name: "a newer cancellation pushes out an older one",
		harm: "Cancel has reported that a job is stopping, and after ten thousand other cancellations no worker stops it",
		edits: []edit{{
			"lua/mark.lua", `if count > most then`, `if count < 0 then`,
		}},
		pkg: "./inspect", run: "TestCancel/of_more_jobs",
		caught: "TestCancel/of_more_jobs_than_can_be_marked_is_refused,_and_breaks_no_earlier_answer/go-redis", says: "An error is expected",
	},
	{
		name: "a retry moves jobs although they were cancelled meanwhile",
		harm: "a worker drops a dead job that an operator has retried, because of a mark that was taken back",
		edits: []edit{{
			"lua/act.lua", `tonumber(newest) > unmarked then`, `tonumber(newest) < unmarked then`,
		}},
		pkg: "./inspect", run: "TestARetryIsNewerThanACancellation",
		caught: "TestARetryIsNewerThanACancellation/that_comes_while_the_jobs_are_being_moved/go-redis", says: "Should be false",
	},
	{
		name: "the search drops the mark of a running job",
		harm: "Cancel reports that a job is stopping, and no worker stops it",
		edits: []edit{{
			"inspect/cancel.go", `if result.Result == CancelRemoved || result.Result == CancelDone {`, `if result.Result != CancelMarked {`,
		}},
		pkg: "./inspect", run: "TestCancel/says_what_it_did",
		caught: "TestCancel/says_what_it_did_about_each_job,_wherever_it_was/go-redis", says: "marks of jobs that may still come",
	},
	{
		name: "a tick does not compare the last one",
		harm: "two pollers that fire one tick enqueue it twice",
		edits: []edit{{
			"lua/tick.lua", `(planned == 'inf' or (redis.call('HGET', lasts, name) or '') ~= expected)`, `planned == 'inf'`,
		}},
		pkg: "./lua", run: "TestTick/stores_the_job",
		caught: "TestTick/stores_the_job_and_notes_the_tick_once", says: "stale",
	},
	{
		name: "a refused tick is not noted",
		harm: "the tick fires late, when the job before it has ended, and again and again meanwhile",
		edits: []edit{{
			"lua/tick.lua", `if last ~= '' then`, `if last ~= '' and not value then`,
		}},
		pkg: "./lua", run: "TestTick/notes_the_tick",
		caught: "TestTick/notes_the_tick_of_a_job_that_is_refused", says: "2026-03-30T03:00:00+02:00",
	},
	{
		name: "a skipped local time is no tick",
		harm: "in the night in which clocks are set forward a nightly job does not run",
		edits: []edit{{
			"scheduler/schedule.go", `return start.In(s.zone)`, `return start.Add(-time.Hour).In(s.zone)`,
		}},
		pkg: "./scheduler", run: "TestNext",
		caught: "TestNext", says: "a skipped time is at the change",
	},
	{
		name: "a worker starts without the marks",
		harm: "a worker that starts during an outage runs a job again that Cancel has reported as stopping",
		edits: []edit{{
			"launcher/launcher.go", `		s.report.Fail(name, err)
		select {`, `		if name == "cancel" {
			return err
		}
		select {`,
		}},
		pkg: "./launcher", run: "TestNothingStartsBeforeTheMarksAreRead",
		caught: "TestNothingStartsBeforeTheMarksAreRead/go-redis", says: "the process has registered without the marks",
	},
	{
		name: "a failed first read of the marks counts as complete",
		harm: "a worker that could not read the marks takes jobs as if none were cancelled",
		edits: []edit{{
			"lua/marks.go", `case noticed == read && m.fresh == nil:`, `case noticed == read:`,
		}},
		pkg: "./lua", run: "TestMarks",
		caught: "TestMarks/are_read_again_where_the_first_read_failed/go-redis", says: "no heartbeat has reported the mark",
	},
	{
		name: "ticks are tracked no longer than their class asks",
		harm: "the history of a nightly job does not show last week's outcome",
		edits: []edit{{
			"scheduler/periodic.go", `return max(track, minTracked, min(`, `return max(track, min(minTracked, `,
		}},
		pkg: ".", run: "TestTheHistoryOfAPeriodicJobHasOutcomes",
		caught: "TestTheHistoryOfAPeriodicJobHasOutcomes", says: "as long as the next ticks take",
	},
	{
		name: "acts on names and cancelling ask for no permission",
		harm: "a user whom the program's Authorize refuses pauses queues and cancels jobs in the dashboard",
		edits: []edit{{
			"web/acts.go", `	if err := d.permit(v, act); err != nil {
		return err
	}
	answer, result, err := do()
`, `	_ = d.permit(v, act)
	answer, result, err := do()
`,
		}},
		pkg: "./web", run: "TestAuthorizeMayRefuseAnyAct",
		caught: "TestAuthorizeMayRefuseAnyAct", says: "expected: 403",
	},
	{
		name: "a claim is pushed without its number",
		harm: "a relay of the outbox that is killed before it deletes its rows pushes up to 256 jobs twice",
		edits: []edit{{
			"client/prepared.go", `	a, err := s.store(ctx, &stored, jobs.load)
`, `	_ = stored
	a, err := s.store(ctx, nil, jobs.load)
`,
		}},
		pkg: "./client", run: "TestPreparedJobs/are_stored_once",
		caught: "TestPreparedJobs/are_stored_once,_however_often_they_are_pushed", says: "should have 1 item(s), but has 3",
	},
	{
		name: "WAIT before the script that it is about",
		harm: "after a restart or a failover, a push is reported as replicated that no replica has",
		edits: []edit{{
			"driver/driver.go", `call.Announces, call.blocks = true, true`, `call.blocks = true`,
		}},
		pkg: "./client", run: "TestAPushWaitsForItsReplicas",
		caught: "TestAPushWaitsForItsReplicas/go-redis", says: "in chain but got nil",
	},
	{
		name: "duties keep their connections",
		harm: "where Redis has too many clients, a heartbeat that has lost its connection gets none, and a living process is declared dead",
		edits: []edit{{
			"launcher/lanes.go", `	if !vital {
`, `	if vital || !vital {
`,
		}},
		pkg: "./launcher", run: "TestDutiesGiveTheirConnections",
		caught: "TestDutiesGiveTheirConnectionsToNothingLessThanAHeartbeat", says: "the connections of duties stay",
	},
	{
		name: "a claim is remembered for a day",
		harm: "a relay of the outbox that comes back after a week doubles its last claim",
		edits: []edit{{
			"client/prepared.go", `Remember: keepScope,`, `Remember: remember,`,
		}},
		pkg: "./client", run: "TestPreparedJobs/may_be_repeated",
		caught: "TestPreparedJobs/may_be_repeated_after_any_time", says: "is not greater than",
	},
	{
		name: "an act writes the state of a job that has left",
		harm: "a job that a worker has taken meanwhile is reported as deleted, and its result is not waited for",
		edits: []edit{{
			"lua/act.lua", `if moves then`, `if not holder then`,
		}},
		pkg: "./lua", run: "TestTrackedJobs/that_are_not_there",
		caught: "TestTrackedJobs/that_are_not_there_any_more_are_as_they_were", says: `actual  : "cancelled"`,
	},
	{
		name: "a job that dies by a crash keeps the state of a waiting one",
		harm: "a job is dead, and callers that wait for its result wait for ever",
		edits: []edit{{
			"lua/shared/orphans.lua", `    end_owned(group, jobs, now_ms)
`, ``,
		}},
		pkg: "./lua", run: "TestTrackedJobs/that_a_crash",
		caught: "TestTrackedJobs/that_a_crash_moves_to_the_dead_set_are_dead_and_others_are_as_they_were", says: "dead",
	},
	{
		name: "jobs of a Ruby process move without another look",
		harm: "a Ruby process that could not reach Redis for a minute loses the jobs that it is running, and they run twice",
		edits: []edit{{
			"contrib/gitlab/recover_gitlab.lua", `heartbeats + count_heartbeats - 1)) > 0 then`, `heartbeats + count_heartbeats - 1)) > 99 then`,
		}},
		pkg: "./contrib/gitlab", run: "TestRecoverGitLab",
		caught: "TestRecoverGitLab/writes_nothing_while_any_process_that_the_name_can_mean_has_a_heartbeat", says: "expected",
	},
	{
		name: "a subscription does not read again",
		harm: "a result that comes while the subscription begins is found by the slow poll only",
		edits: []edit{{
			"client/wait.go", `driver.ListenProbe, s.poll, `, `driver.ListenProbe, func() {}, `,
		}},
		pkg: "./client", run: "TestWait$/misses_nothing",
		caught: "TestWait/misses_nothing_that_ends_before_its_subscription_has_begun", says: "did not return before the poll",
	},
	{
		name: "saves have no order",
		harm: "a save that was delayed on the network puts an older cursor in the place of a newer one, and the job's next run repeats hours of work",
		edits: []edit{{
			"lua/save.lua", `elseif version <= state_version(state, created) then`, `elseif version <= 0 * state_version(state, created) then`,
		}},
		pkg: "./lua", run: "TestSave/a_delayed",
		caught: "TestSave/a_delayed_save_changes_nothing", says: "stale",
	},
	{
		name: "a run saves its cursor at its end only",
		harm: "a worker that is killed repeats all that the run has done, however long that was",
		edits: []edit{{
			"fetch/saved.go", `time.Since(s.triedAt) < interval {`, `time.Since(s.triedAt) < interval*100 {`,
		}},
		pkg: "./integration", run: "TestAThawedImportChangesNoCursor/go-redis",
		caught: "TestAThawedImportChangesNoCursor/go-redis", says: "it saves every 300ms",
	},
	{
		name: "a save does not check the owner",
		harm: "a worker that was frozen and wakes up writes the cursor of a job that runs elsewhere",
		edits: []edit{{
			"lua/save.lua", `if not redis.call('LPOS', list, bytes) then`, `if redis.call('LPOS', list, bytes) == '' then`,
		}},
		pkg: "./lua", run: "TestSave/a_job_in_other_hands",
		caught: "TestSave/a_job_in_other_hands_is_lost", says: "lost",
	},
	{
		name: "a cursor is for every job with its jid",
		harm: "a job that is pushed with the jid of one that an operator deleted skips all that the other had done",
		edits: []edit{{
			"lua/save.go", `if created != s.Created &&`, `if created == s.Created && created != s.Created &&`,
		}},
		pkg: "./lua", run: "TestSave/state_of_an_earlier",
		caught: "TestSave/state_of_an_earlier_job_with_the_same_jid_does_not_count/go-redis", says: "1000",
	},
	{
		name: "the last cursor stays behind at a stop",
		harm: "each deploy repeats the items since the last save",
		edits: []edit{{
			"fetch/saved.go", `		if len(state.Fields) == 0 && (!s.exists || r.outcome.After() == 0) {
			return nil`, `		if exit == job.ExitRequeued || len(state.Fields) == 0 {
			return nil`,
		}},
		pkg: "./launcher", run: "TestALongJobGoesOnElsewhereAfterAStop/go-redis",
		caught: "TestALongJobGoesOnElsewhereAfterAStop/go-redis", says: "301",
	},
	{
		name: "all crashes of a long job count",
		harm: "an import is quarantined at the third deploy by kill -9 and dies at the next, however far it came",
		edits: []edit{{
			"janitor/crash.go", `if excused > 0 && excused < count {`, `if excused > 0 && excused < 0 {`,
		}},
		pkg: "./janitor", run: "TestCrashPolicy",
		caught: "TestCrashPolicy/go-redis/a_job_whose_cursor_advanced_in_its_last_run_is_not_quarantined", says: "a_job_whose_cursor_advanced",
	},
	{
		name: "a batch is complete when it is empty",
		harm: "a batch with a dead member is never complete, and a program that waits for it waits for ever",
		edits: []edit{{
			"lua/shared/batch.lua", `if left == (b.some_failed and redis.call('SCARD', failed) or 0) then`, `if left == 0 then`,
		}},
		pkg: "./lua", run: "TestBatch/is_complete_when",
		caught: "TestBatch/is_complete_when_each_member_has_run_and_over_when_each_is_done/go-redis", says: "Complete",
	},
	{
		name: "a refused duplicate is a member",
		harm: "a batch waits for ever for a job that was never stored",
		edits: []edit{{
			"lua/push_unique.lua", `    if bytes then
      members[#members + 1] = jid or nil
`, `    members[#members + 1] = jid or nil
    if bytes then
`,
		}},
		pkg: "./lua", run: "TestBatch/stores_a_pending",
		caught: "TestBatch/stores_a_pending_member_once_and_counts_what_is_stored/go-redis", says: "a refused duplicate is no member",
	},
	{
		name: "the end of a nested batch has not failed in its parent",
		harm: "a parent is not complete while a job of its nested batch waits for a retry",
		edits: []edit{{
			"lua/batch_new.lua", `  redis.call('SADD', parent_failed, success)
`, ``,
		}},
		pkg: "./lua", run: "TestNestedBatch/its_parent_is_complete",
		caught: "TestNestedBatch/its_parent_is_complete_after_it_and_over_after_it/go-redis", says: "Not equal",
	},
	{
		name: "a death in a nested batch stays there",
		harm: "a batch around it calls no OnDeath, and a program that waits for that batch waits for ever",
		edits: []edit{{
			"lua/shared/batch.lua", `    store(b, 'on_nested', now_ms)`, `   `,
		}},
		pkg: "./lua", run: "TestDeathInANestedBatch/is_a_death",
		caught: "TestDeathInANestedBatch/is_a_death_in_each_batch_around_it_until_the_member_is_retried/go-redis", says: "Not equal",
	},
	{
		name: "the sweep deletes a batch without another look",
		harm: "a batch that a push has prolonged meanwhile is gone, and its callbacks are never called",
		edits: []edit{{
			"lua/batch_drop.lua", `expiry > tonumber(time[1]) then`, `expiry < 0 then`,
		}},
		pkg: "./lua", run: "TestBatch/is_deleted_alone",
		caught: "TestBatch/is_deleted_alone_and_its_jobs_then_count_nowhere/go-redis", says: "kept",
	},
	{
		name: "the callbacks are called after the settle",
		harm: "a worker that dies between the two calls loses the callbacks of its batch",
		edits: []edit{{
			"lua/shared/member.lua", `kinds.done = { may = may_member, all = note, finish = count_all }`,
			`kinds.done = { may = may_member, all = note, finish = function() end }`,
		}},
		pkg: "./lua", run: "TestBatch/calls_complete",
		caught: "TestBatch/calls_complete_and_success_in_the_step_that_ends_its_last_member/go-redis", says: "Not equal",
	},
	{
		name: "a crash too many does not count in the batch",
		harm: "a batch waits for ever for a member that is dead",
		edits: []edit{{
			"janitor/crash.go", `				orphans[i].Member = lua.MemberOf(parsed, lua.MemberDied)
`, ``,
		}},
		pkg: "./janitor", run: "TestCrashPolicy",
		caught: "TestCrashPolicy/go-redis/a_crash_alone_kills_at_the_limit", says: "its batch",
	},
	{
		name: "a retry stores the next jobs",
		harm: "each failed run of a job enqueues its next jobs, though the job is not done",
		edits: []edit{{
			"batch/next.go", `outcome.Exit() == job.ExitDone &&`, `(outcome.Exit() == job.ExitDone || outcome.Exit() == job.ExitRetry) &&`,
		}},
		pkg: ".", run: "TestNextJobsFollowOnlyWhatIsDone",
		caught: "TestNextJobsFollowOnlyWhatIsDone/go-redis", says: "no job's that is not done",
	},
	{
		name: "the queue of a next job is not checked first",
		harm: "a key of another type breaks the settle half-way: the job has left its list, and its next jobs are lost",
		edits: []edit{{
			"lua/shared/next.lua", `not checked[list] and must_be(list, 'list', 'LPUSH', list, '')`, `nil`,
		}},
		pkg: "./lua", run: "TestNextJobs/refuse_the_settle_before_it_writes_if_a_queue_is_none",
		caught: "TestNextJobs/refuse_the_settle_before_it_writes_if_a_queue_is_none/go-redis", says: "something was written",
	},
	{
		name: "a slot is free before its job leaves",
		harm: "more jobs of a limit run at once than it allows",
		edits: []edit{{
			"lua/settle.lua", `      answer[#answer + 1] = position + job
`, `      answer[#answer + 1] = position + job
      if moved then end_owned(group, { job }, now_ms) end
`,
		}},
		pkg: "./lua", run: "TestGate/an_end",
		caught: "TestGate/an_end_of_a_job_that_is_lost_frees_nothing/go-redis", says: "Not equal",
	},
	{
		name: "a waiter stays in its list when it is admitted",
		harm: "the job runs twice",
		edits: []edit{{
			"lua/shared/gate.lua", `      redis.call('RPOP', g.waiting, #jobs)
`, ``,
		}},
		pkg: "./lua", run: "TestGate/lets_in",
		caught: "TestGate/lets_in_as_many_as_its_size_and_the_others_wait_in_order/go-redis", says: "Not equal",
	},
	{
		name: "admitted jobs go to the head of their queue",
		harm: "a few busy limits keep all other jobs of the queue from being taken",
		edits: []edit{{
			"lua/shared/gate.lua", `redis.pcall('LPUSH', list, unpack(jobs))`, `redis.pcall('RPUSH', list, unpack(jobs))`,
		}},
		pkg: "./lua", run: "TestGate/admitted_jobs",
		caught: "TestGate/admitted_jobs_go_to_the_back_of_their_queue/go-redis", says: "Not equal",
	},
	{
		name: "an admission uses a permit",
		harm: "jobs that were admitted while all workers stalled start together, more than the rate allows",
		edits: []edit{{
			"lua/shared/gate.lua", `  if granted > 0 then
`, `  if granted > 0 then
    if g.permits then use_permits(g, granted, now_ms) end
`,
		}},
		pkg: "./lua", run: "TestRate/no_window",
		caught: "TestRate/no_window_has_more_starts_than_its_size/go-redis", says: "an admission uses no permit",
	},
	{
		name: "admitted jobs start during a stop",
		harm: "a service that has refused requests gets more of them, more than the rate allows",
		edits: []edit{{
			"lua/start.lua", `local enters = holds or g.free > 0 and (since`, `local enters = holds or (g.free > 0 or g.permits == false) and (since`,
		}},
		pkg: "./lua", run: "TestRate/a_stop",
		caught: "TestRate/a_stop_does_not_let_admitted_jobs_start_without_permits/go-redis", says: "Not equal",
	},
	{
		name: "a job that the process has lost starts beside its neighbour",
		harm: "a job that was recovered runs twice, and its slot is never freed",
		edits: []edit{{
			"lua/start.lua", `local is = ahead[#ahead] == bytes`, `local is = #ahead > 0`,
		}},
		pkg: "./lua", run: "TestGate/jobs_that_are_lost",
		caught: "TestGate/jobs_that_are_lost_do_not_begin_wherever_they_lay/go-redis", says: "Not equal",
	},
	{
		name: "a recovery forgets the slot",
		harm: "each crash takes a slot away for good",
		edits: []edit{{
			"lua/recover.go", `		list.setSlots(identity)
`, ``,
		}},
		pkg: "./lua", run: "TestGate/a_crash_passes",
		caught: "TestGate/a_crash_passes_the_slot_on_and_frees_it_for_the_quarantine/go-redis", says: "Not equal",
	},
	{
		name: "an admission lapses at any age",
		harm: "a job that was taken just now starts beside too many others, or waits again",
		edits: []edit{{
			"lua/lapse.lua", `age_ms > unqueued_ms and (redis.call`, `(redis.call`,
		}},
		pkg: "./lua", run: "TestGate/an_admission_lapses",
		caught: "TestGate/an_admission_lapses_when_it_is_old_and_frees_its_place/go-redis", says: "it is new",
	},
	{
		name: "a start that is sent again uses another permit",
		harm: "each lost reply costs a limit a start",
		edits: []edit{{
			"lua/start.lua", `local holds = begun[hash] or group.slots[job]`, `local holds = begun[hash]`,
		}},
		pkg: "./lua", run: "TestRate/a_start_that",
		caught: "TestRate/a_start_that_is_sent_again_uses_no_second_permit/go-redis", says: "something was written",
	}, {
		name: "a rule of a class is stored without an event",
		harm: "workers start jobs of a paused class until they are restarted",
		edits: []edit{{
			"lua/class_rule.lua", `redis.call('ZADD', marks, string.format('%.0f', newer_mark(marks, time)), '')
`, ``,
		}},
		pkg: "./lua", run: "TestClassRules/are_read",
		caught: "TestClassRules/are_read_after_a_heartbeat_and_cost_nothing_before/go-redis", says: "Not equal",
	},
	{
		name: "a paused class that is dropped starts its jobs",
		harm: "jobs run that an operator has paused and then dropped, in workers that have not read the second rule",
		edits: []edit{{
			"lua/start.lua", `if g.limit.drops and string.sub(g.size, 1, 4) ~= 'drop' or`, `if`,
		}},
		pkg: "./lua", run: "TestClassRules/are_not_run",
		caught: "TestClassRules/are_not_run_past_by_processes_that_have_not_read_them/go-redis", says: "Not equal",
	},
	{
		name: "the class' own limit goes before its rule",
		harm: "an operator cannot pause a class that declares a limit",
		edits: []edit{{
			"launcher/limits.go", `if gate := s.rules.Gate(j, own != nil); gate != nil || own == nil {`, `if gate := s.rules.Gate(j, own != nil); own == nil {`,
		}},
		pkg: "./launcher", run: "TestAClassWithARule",
		caught: "TestAClassWithARuleAndALimitObeysTheRule/go-redis", says: "waited in vain for the others to wait",
	},
	{
		name: "admissions outlive the rule of a class",
		harm: "the next rule of the class counts jobs that have long run, and starts too few for minutes",
		edits: []edit{{
			"lua/lapse.lua", `
      or redis.call('HEXISTS', limits, string.match(name, '^[^:]*')) == 0) then`, `) then`,
		}},
		pkg: "./lua", run: "TestClassRules/forget",
		caught: "TestClassRules/forget_their_admissions/go-redis", says: "Not equal",
	},
}
