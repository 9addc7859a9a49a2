package launcher

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/job/seal"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/retry"
)

// Logging configures what the log shows of jobs, and the loggers of handlers.
type Logging struct {
	// Handler is what handlers' own lines go to. Default: that of Config.Log.
	Handler slog.Handler

	// Args, Redact and RedactError are belay.ServerConfig's LogArgs, Redact and RedactError.
	Args        bool
	Redact      func(class string, args json.RawMessage) json.RawMessage
	RedactError func(class string, err error) string
}

const (
	// maxArgs bounds the arguments that a line shows, in bytes. A payload may have a megabyte of them.
	maxArgs = 4 << 10
	// maxText bounds an error's text likewise: as much as is stored with the job, if it is ASCII.
	maxText = 10_000
	// unshown replaces the text if its redaction function does not return: the text may not be shown then.
	unshown = "(not shown: its redaction panicked)"
)

type logKey struct{}

// WithLog returns a context in which Log returns this logger outside of a run.
func WithLog(ctx context.Context, log *slog.Logger) context.Context {
	return context.WithValue(ctx, logKey{}, log)
}

// Log returns the logger of the run that ctx belongs to: its lines have the run's jid, class, queue and
// attempt. Outside of a run it returns that of WithLog, or slog.Default(). If the lines are written by
// zerolog, zerolog.Ctx(ctx) has the same fields. Both are made at their first use, so a run that logs nothing
// pays nothing.
func Log(ctx context.Context) *slog.Logger {
	if run, ok := ctx.Value(runKey{}).(*run); ok {
		return run.loggers().slog
	}
	if log, ok := ctx.Value(logKey{}).(*slog.Logger); ok {
		return log
	}
	return slog.Default()
}

// runLoggers are a run's logger in two forms, for slog and for zerolog.
type runLoggers struct {
	slog    *slog.Logger
	zerolog *zerolog.Logger // nil if another library writes the lines
}

// loggers makes a run's loggers, once: a handler may ask from several goroutines.
func (r *run) loggers() *runLoggers {
	if made := r.made.Load(); made != nil {
		return made
	}
	info := r.info()
	// Names are cut here because a program's own logger has no Buffer that would cut them.
	jid, class, queue := logbook.CutName(info.JID), logbook.CutName(r.job.DisplayClass()), logbook.CutName(info.Queue)
	log := slog.New(r.launcher().cfg.Logging.Handler).With("jid", jid, "class", class, "queue", queue, "attempt", info.Attempt)
	r.made.CompareAndSwap(nil, &runLoggers{slog: log, zerolog: logbook.ZerologOf(log.Handler())})
	return r.made.Load()
}

// names are the fields that name a run.
func (r *run) names() []any {
	names := []any{"jid", r.job.JID(), "class", r.job.DisplayClass(), "queue", r.Queue}
	if r.shard.Name != "" {
		names = append(names, "shard", r.shard.Name)
	}
	return names
}

// zerologKey is the key under which zerolog.Ctx looks for a logger in a context. zerolog does not export the
// key, and without it every run would need a logger of its own. So a call of zerolog.Ctx reveals the key.
var zerologKey = func() any {
	var recorder keyRecorder
	zerolog.Ctx(&recorder)
	return recorder.key
}()

// A keyRecorder is a context that records the key it is asked for.
type keyRecorder struct {
	context.Context
	key any
}

// Value implements context.Context.
func (k *keyRecorder) Value(key any) any {
	k.key = key
	return nil
}

// logEnd logs a failed run, and at level debug any run that did not succeed.
func (r *run) logEnd() {
	l, exit := r.launcher(), r.outcome.Exit()
	text := l.errorText(r.job.DisplayClass(), r.err)
	switch {
	case !exit.Fault():
	case exit == job.ExitCancelled:
		fields := append([]any{"error", text}, r.names()...)
		l.cfg.Log.Info("run cancelled", append(fields, logbook.Millis("took_ms", time.Since(r.startedAt)))...)
	default:
		fields := []any{"error", text}
		if panicked := retry.Panicked(r.err); panicked != nil {
			fields = append(fields, "stack", cutLines(panicked.Stack, maxStack))
		}
		if exit == job.ExitRetry {
			fields = append(fields, logbook.Millis("again_in_ms", r.outcome.After()))
		}
		fields = append(fields, r.names()...)
		info := r.info()
		fields = append(fields, "attempt", info.Attempt)
		if info.MaxAttempts > 0 {
			fields = append(fields, "max_attempts", info.MaxAttempts)
		}
		l.cfg.Log.Warn("run failed", append(fields, "exit", string(exit))...)
	}
	r.log(text)
}

// logSnoozed logs a run that an ErrorRule has snoozed. Without the line, nothing at level info would show that
// the job ends in the same error again and again: no counter grows, and no error handler is called.
func (r *run) logSnoozed() {
	l := r.launcher()
	fields := append([]any{"error", l.errorText(r.job.DisplayClass(), r.err)}, r.names()...)
	l.cfg.Log.Info("run snoozed for its error", append(fields, logbook.Millis("again_in_ms", r.outcome.After()))...)
}

// debugging reports whether the log has level debug.
func (l *Launcher) debugging() bool { return l.cfg.Log.Enabled(context.Background(), slog.LevelDebug) }

// log logs a run, whatever its outcome. At level debug only: at full speed a line per job costs more than the
// job.
func (r *run) log(text string) {
	l := r.launcher()
	if !l.debugging() {
		return
	}
	var fields []any
	if text != "" {
		fields = append(fields, "error", text)
	}
	if l.cfg.Logging.Args {
		fields = append(fields, "args", l.argsText(r.job))
	}
	fields = append(fields, r.names()...)
	fields = append(fields, "exit", string(r.outcome.Exit()), logbook.Millis("took_ms", time.Since(r.startedAt)))
	l.cfg.Log.Debug("run", fields...)
}

// errorText returns what may be shown of a run's error.
func (l *Launcher) errorText(class string, err error) string {
	if l.cfg.Logging.RedactError == nil {
		return logbook.Cut(retry.Text(err), maxText)
	}
	return logbook.Cut(redacted(func() string { return l.cfg.Logging.RedactError(class, err) }), maxText)
}

// argsText returns what may be shown of a job's arguments, and of encrypted ones the ID of the key. It is a
// text even if they are JSON, so that a log store does not make a field of each argument.
func (l *Launcher) argsText(j *job.Job) string {
	args := seal.Shown(j)
	if hide := l.cfg.Logging.Redact; hide != nil {
		args = redacted(func() string { return string(hide(j.DisplayClass(), json.RawMessage(args))) })
	}
	return logbook.Cut(args, maxArgs)
}

// redacted returns the result of a redaction.
func redacted(ask func() string) (text string) {
	if retry.Contain(func() { text = ask() }) != nil {
		return unshown
	}
	return text
}

// warnForeignLock logs the first job that is locked by a Ruby gem, once for each gem.
func (l *Launcher) warnForeignLock(j *job.Job) {
	gem := j.ForeignLock()
	if gem == "" {
		return
	}
	if _, known := l.warnedOf.LoadOrStore(gem, true); !known {
		l.cfg.Log.Warn("job locked by a Ruby gem; its lock is not released (logged once)",
			"gem", gem, "jid", j.JID(), "class", j.DisplayClass(),
			"advice", "drop the class' lock in Ruby; until its TTL, the gem refuses equal jobs")
	}
}

// A foreignBatch is the class of a member of Sidekiq Pro's batches.
type foreignBatch string

// warnForeignBatch logs the first member of a batch of Sidekiq Pro for each class with a handler, and one of
// all other classes: any program that pushes can make up more of them.
func (l *Launcher) warnForeignBatch(j *job.Job, p *pool) {
	bid := j.ForeignBatch()
	if bid == "" {
		return
	}
	_, class := registeredIn(p.handlers, j)
	if _, known := l.warnedOf.LoadOrStore(foreignBatch(class), true); !known {
		l.cfg.Log.Warn("job of a batch of Sidekiq Pro; the batch will not end (logged once a class)",
			"bid", bid, "jid", j.JID(), "class", j.DisplayClass(),
			"advice", "run the members of a batch of Sidekiq Pro in Ruby, or make the batch with Belay")
	}
}
