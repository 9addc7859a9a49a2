package belay

import (
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/launcher/flagset"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/retry"
)

// Flags returns the flags of Main, bound to cfg: they have cfg's values, and Set changes cfg. It is for a
// program with a command line library of its own. The program registers each flag there. For each flag that was
// not given on the command line, it calls Set with the value of the flag's environment variable, if that is
// set. Then it calls Check on each flag.
func (cfg *MainConfig) Flags() []*flagset.Flag {
	server := &cfg.Server
	return []*flagset.Flag{
		flagset.URL("redis", "`URL` of Redis, also REDIS_URL: redis[s]://[user:password@]host[:port][/db], redis[s]+sentinel://host1,host2,host3/NAME, "+
			"or redis[s]+cluster://host1,host2 with --prefix '{NAME}' or ?shards=N; ?password_file=FILE, ?ca=FILE; "+
			"NAME=URL for each of several shards (default "+defaultURL+")", &cfg.RedisURL).WithVariable("BELAY_REDIS_URL"),
		flagset.Text("prefix", "prefix of every key, a colon is added (default none)", &cfg.Client.Prefix),
		flagset.Queues("queue", "take from queue `NAME[,WEIGHT]`, or from all that match a pattern such as tenant-*; may be repeated. "+
			"Without weights in the order given, with weights at random by them (default default)", &server.Queues).WithShort("q"),
		flagset.Scalar("concurrency", "how many jobs run at once", &server.Concurrency, launcher.DefaultConcurrency, flagset.ZeroIsInvalid).WithShort("c"),
		flagset.Scalar("heartbeat", "heartbeat interval", &server.Heartbeat, launcher.DefaultHeartbeat, flagset.ZeroIsInvalid),
		flagset.Scalar("ttl", "how long the worker counts as alive after a heartbeat, at least 4 heartbeats (default 4 heartbeats)",
			&server.TTL, 0, flagset.ZeroIsInvalid),
		flagset.OrOff(flagset.Scalar("poll", "maximum time between two checks for due jobs, by one worker of the fleet; off leaves "+
			"them to Ruby, if all workers have it", &server.PollInterval, launcher.DefaultPoll, flagset.ZeroIsInvalid), &server.PollInterval),
		flagset.Scalar("poll-wait", "how long after the start due jobs are left to other workers", &server.PollWait, 0, flagset.ZeroIsZero),
		flagset.Scalar("janitor", "minimum time between the two checks of a worker that seems dead (default 1 heartbeat)",
			&server.JanitorInterval, 0, flagset.ZeroIsInvalid),
		flagset.Scalar("job-timeout", "maximum duration of a run, unless its job or its class sets one; 0 for none (default none)",
			&server.Timeout, 0, flagset.ZeroIsZero),
		flagset.Scalar("shutdown-timeout", "how long running jobs may go on after TERM; 0 for not at all",
			&server.ShutdownTimeout, launcher.DefaultShutdownTimeout, flagset.ZeroIsNone),
		flagset.Scalar("max-interruptions", "crashes of its worker after which a job is moved to the dead set, at least 2; after one crash "+
			"less it runs alone", &server.MaxInterruptions, retry.DefaultMaxInterruptions, flagset.ZeroIsInvalid),
		flagset.Scalar("payload-limit", "maximum payload in `BYTES`, at most 2097152; a job that exceeds it by more than 65536 is moved "+
			"to the dead set", &cfg.Client.PayloadLimit, job.DefaultPayloadLimit, flagset.ZeroIsInvalid),
		flagset.Switch("wait-for-redis", "at the start, wait until Redis accepts the password, the certificate and the permissions, instead "+
			"of ending with an error", &server.WaitForRedis),
		flagset.Text("name", "name to show instead of the host's", &server.Name),
		flagset.Text("tag", "tag to show in Sidekiq's dashboard", &server.Tag),
		flagset.List("label", "label to show in Sidekiq's dashboard; may be repeated", func(labels []string) error {
			server.Labels = labels
			return nil
		}, func() []string { return server.Labels }),
		flagset.Text("health-addr", "answer GET /healthz (alive?) and /readyz (taking jobs?) at this `ADDRESS`, such as 127.0.0.1:7421",
			&cfg.Process.HealthAddr),
		flagset.Text("metrics", "serve /metrics for Prometheus, and /healthz and /readyz, at this `ADDRESS`, such as 127.0.0.1:9090, without "+
			"authentication (default none)", &cfg.Process.MetricsAddr),
		flagset.Choice("retry-formula", "delays between retries as in Sidekiq 8.x, 6.x or 4.2.3", &server.RetryFormula, "8.x",
			map[string]retry.Formula{"8.x": retry.Sidekiq8, "6.x": retry.Sidekiq6, "4.2.3": retry.Sidekiq4}, "8.x, 6.x or 4.2.3"),
		flagset.Scalar("max-retries", "retries of jobs that do not set them; 0 for none: they are moved to the dead set at once",
			&server.Retries, retry.DefaultMaxRetries, flagset.ZeroIsNone),
		flagset.Choice("timestamps", "how times are written into jobs: seconds (every Sidekiq reads them) or milliseconds (Sidekiq 8)",
			&cfg.Client.Unit, "seconds", map[string]job.TimeUnit{"seconds": job.Seconds, "milliseconds": job.Millis}, "seconds or milliseconds"),
		flagset.Choice("log-level", "least level that is logged: debug (a line per job), info, warn or error", &cfg.LogLevel, "info",
			map[string]string{"debug": "debug", "info": "info", "warn": "warn", "error": "error"}, "debug, info, warn or error"),
		flagset.Choice("log-format", "json (one object a line), console (for people), or auto: console on a terminal, json elsewhere",
			&cfg.LogFormat, "auto",
			map[string]string{"auto": "", logbook.FormatJSON: logbook.FormatJSON, logbook.FormatConsole: logbook.FormatConsole},
			"auto, json or console"),
	}
}
