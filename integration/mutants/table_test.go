package mutants

// A mutant is one bug, and the check that is to catch it.
type mutant struct {
	name string
	// harm is what the bug would do to people's jobs.
	harm  string
	edits []edit
	// pkg and run are what is run: a package and go test's -run, no wider than it must be.
	pkg, run string
	// caught is the test that must fail, in full, and says what must stand in its report.
	caught, says string
}

// An edit is the bug in one file: a text that stands there once, and what stands there instead.
type edit struct{ file, old, new string }

// bugs are those that we or others before us have made, or nearly. Each is what somebody might write who thought it
// simpler, or faster.
var bugs = []mutant{
	{
		name: "take pops",
		harm: "a worker that dies loses what it has in hand",
		edits: []edit{{
			"lua/take.lua", `redis.pcall('LMOVE', queue, working, 'RIGHT', 'LEFT')`, `redis.pcall('RPOP', queue)`,
		}},
		pkg: "./lua", run: "TestTake/oldest_first",
		caught: "TestTake/oldest_first_in_the_order_of_the_queues", says: "newest at the head",
	},
	{
		name: "settle asks not whose the job is",
		harm: "a worker that was taken for dead writes a retry of a job that runs elsewhere, and counts it twice",
		edits: []edit{{
			"lua/settle.lua", `if redis.call('LREM', group.working, -1, ARGV[arg]) == 0 then`, `if redis.call('LREM', group.working, -1, ARGV[arg]) < 0 then`,
		}},
		pkg: "./lua", run: "TestSettle/writes_nothing_for_a_job_we_lost",
		caught: "TestSettle/writes_nothing_for_a_job_we_lost", says: "Lost:[]int(nil)",
	},
	{
		name: "retry, then acknowledge",
		harm: "between the two calls the job is in two places, and runs twice if its worker dies there",
		edits: []edit{{
			"fetch/exchange.go", `	for i, held := range gathered {
		settled[i]`, `	for i, held := range gathered {
		if held.outcome.Exit() == job.ExitRetry {
			at := f.cfg.Clock.Now().Add(held.outcome.After()).UnixMicro()
			f.lane.Do(b.life.Context, driver.Command("ZADD", f.cfg.Keys.Retry(), fmt.Sprintf("%.6f", float64(at)/1e6), held.outcome.Payload()))
			held.outcome = job.Discarded(true)
		}
		settled[i]`,
		}, {
			"fetch/exchange.go", `import (
`, `import (
	"fmt"
`,
		}},
		pkg: "./integration", run: "TestEveryStepIsLawful/go-redis",
		caught: "TestEveryStepIsLawful/go-redis", says: "doubled: it lies in 2 places",
	},
	{
		name: "promote takes out, then pushes",
		harm: "a poller that dies between the two calls loses the job, as Ruby's does",
		edits: []edit{{
			"scheduler/poller.go", `			_, err := p.cfg.Keys.Promote(set, []lua.Promotions{group}).Do(ctx, p.cfg.Client)
`, `			var err error
			for _, due := range group.Jobs {
				taken := p.cfg.Client.Do(ctx, driver.Command("ZREM", set, due.Old))[0]
				if err = taken.Err; err == nil && taken.Value == int64(1) {
					err = p.cfg.Client.Do(ctx, driver.Command("LPUSH", p.cfg.Keys.Queue(group.Queue), due.New))[0].Err
				}
			}
`,
		}},
		pkg: "./scheduler", run: "TestDeniedCommands",
		caught: "TestDeniedCommands", says: "not lost",
	},
	{
		name: "the janitor looks once",
		harm: "a pause of Redis or of the fleet makes everybody dead, and runs everything again",
		edits: []edit{{
			"fetch/janitor.go", `between := max(2*s.record.Beat, j.cfg.Between) - j.cfg.Beat/10`, `between := time.Duration(0)`,
		}},
		pkg: "./fetch", run: "TestJanitorJudges/one_look_condemns_nobody",
		caught: "TestJanitorJudges/one_look_condemns_nobody", says: "map[victim:",
	},
	{
		name: "nobody reconciles",
		harm: "a job whose worker never heard the answer to its take lies in that worker's list for as long as it lives",
		edits: []edit{{
			"fetch/look.go", `if f.life == nil || f.life.Over() || (!f.look && len(f.strays.toRead) == 0) {`, `if true {`,
		}},
		pkg: "./fetch", run: "TestLostReplies/a_take_whose_reply_is_lost",
		caught: "TestLostReplies/a_take_whose_reply_is_lost_strands_nothing", says: "within four beats",
	},
	{
		name: "a stranger is adopted at first sight",
		harm: "what a take is just bringing is run twice",
		edits: []edit{{
			"fetch/look.go", `if first == nil || first.count < count {`, `if first == nil {
			first = &stray{count: count}
		}
		if first.count < count {`,
		}},
		pkg: "./fetch", run: "TestLook/adopts_no_stranger_at_first_sight",
		caught: "TestLook/adopts_no_stranger_at_first_sight", says: "Should be empty",
	},
	{
		name: "go-redis sends again",
		harm: "a call whose answer was lost is executed twice: counters, pushes, takes",
		// It is kept from that twice over: by its setting, and by the kind of its commands.
		edits: []edit{{
			"driver/goredisdriver/options.go", `o.MaxRetries = -1 // 0 would mean three`, `o.MaxRetries = 0`,
		}, {
			"driver/goredisdriver/command.go", `// prepare spells the call out.`, `func (c *command) NoRetry() bool { return false }

// prepare spells the call out.`,
		}},
		pkg: "./driver/goredisdriver", run: "TestConformance/.*/a_lost_reply_is_uncertain",
		caught: "TestConformance/redis/a_lost_reply_is_uncertain_and_executed_once", says: "An error is expected but got nil",
	},
	{
		name: "rueidis sends again",
		harm: "the same, by the other client",
		edits: []edit{{
			"driver/rueidisdriver/client.go", `o.DisableRetry = true`, `o.DisableRetry = false`,
		}, {
			"driver/rueidisdriver/do.go", `b.Arbitrary(call.Args...).Build()`, `b.Arbitrary(call.Args...).Build().ToRetryable()`,
		}, {
			"driver/rueidisdriver/do.go", `Args(call.Args...).Build()`, `Args(call.Args...).Build().ToRetryable()`,
		}},
		pkg: "./driver/rueidisdriver", run: "TestConformance/.*/a_lost_reply_is_uncertain",
		caught: "TestConformance/redis/a_lost_reply_is_uncertain_and_executed_once", says: "An error is expected but got nil",
	},
	{
		name: "a hand-back counts as a crash",
		harm: "three deploys bury a job that never did any harm",
		edits: []edit{{
			"lua/settle.lua", `redis.call('RPUSH', group.queue, ARGV[arg])`, `redis.call('RPUSH', group.queue, (string.gsub(ARGV[arg], '}$', ',"interrupted_count":1}')))`,
		}},
		pkg: "./launcher", run: "TestStop/hands_back_byte_for_byte_what",
		caught: "TestStop/hands_back_byte_for_byte_what_does_not_finish_in_time", says: `"interrupted_count":1`,
	},
	{
		name: "the heart stops at TERM",
		harm: "a worker that finishes its jobs before it leaves is taken for dead meanwhile, and they run twice",
		edits: []edit{{
			"launcher/duties.go", `if d.intake && l.quiet.Load() {`, `if d.intake && l.quiet.Load() || d.name == "beat" && l.asked.Load() {`,
		}},
		pkg: "./launcher", run: "TestTheHeartBeats",
		caught: "TestTheHeartBeatsUntilTheLastJobIsSettled", says: "it ran twice",
	},
}
