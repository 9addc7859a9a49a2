package launcher

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/retry"
)

// Logging configures what the log shows of jobs, and the loggers of handlers.
type Logging struct {
	// Zerolog is the logger that zerolog.Ctx returns in handlers, and that Log uses if Slog is nil. Default:
	// Config.Log.
	Zerolog *zerolog.Logger
	// Slog is the handler that Log uses in handlers, and that zerolog.Ctx uses if Zerolog is nil. Default:
	// none.
	Slog slog.Handler

	// Args shows a job's arguments in the line that each run has at level debug. They may hold secrets.
	// Default: not shown.
	Args bool
	// Redact returns what the log shows of a job's arguments. Default: all of them.
	Redact func(class string, args json.RawMessage) json.RawMessage
	// RedactError returns what the log shows of the error of a run and, with an empty class, of a panic
	// elsewhere in the program's code. It does not change what is stored with the job. Default: the error's
	// text.
	RedactError func(class string, err error) string
}

const (
	// mostArgs bounds the arguments that a line shows, in bytes. A payload may have a megabyte of them.
	mostArgs = 4 << 10
	// mostText bounds an error's text likewise: as much as is stored with the job, if it is ASCII.
	mostText = 10_000
	// unshown replaces the text if its redaction function does not return: the text may not be shown then.
	unshown = "(not shown: its redaction panicked)"
)

// Log returns the logger of the run that ctx belongs to: its lines have the run's jid, class, queue and
// attempt. Outside of a run it returns slog.Default(). zerolog.Ctx(ctx) has the same fields. Both are made
// at their first use, so a run that logs nothing pays nothing.
func Log(ctx context.Context) *slog.Logger {
	run, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return slog.Default()
	}
	return run.loggers().slog
}

// runLoggers are a run's logger in two forms, for slog and for zerolog.
type runLoggers struct {
	slog    *slog.Logger
	zerolog *zerolog.Logger
}

// loggers makes a run's loggers, once: a handler may ask from several goroutines.
func (r *run) loggers() *runLoggers {
	if made := r.made.Load(); made != nil {
		return made
	}
	info := r.info()
	info.Class = r.job.DisplayClass() // as everywhere in the log
	r.made.CompareAndSwap(nil, r.launcher().cfg.Logging.of(info))
	return r.made.Load()
}

// of makes loggers for a run.
func (l *Logging) of(run RunInfo) *runLoggers {
	// Names are cut here because a program's own logger has no Book that would cut them.
	run.JID, run.Class, run.Queue = logbook.CutName(run.JID), logbook.CutName(run.Class), logbook.CutName(run.Queue)
	var base zerolog.Logger
	if l.Zerolog != nil {
		base = *l.Zerolog
	} else {
		base = logbook.ZerologTo(l.Slog)
	}
	// Not as slog's attributes if the other logger is zerolog's: they would be converted again for each line.
	zero := base.With().Str("jid", run.JID).Str("class", run.Class).Str("queue", run.Queue).Int("attempt", run.Attempt).Logger()
	if l.Slog == nil {
		return &runLoggers{slog: slog.New(logbook.SlogTo(zero)), zerolog: &zero}
	}
	attrs := []slog.Attr{
		slog.String("jid", run.JID), slog.String("class", run.Class), slog.String("queue", run.Queue), slog.Int("attempt", run.Attempt),
	}
	return &runLoggers{slog: slog.New(l.Slog.WithAttrs(attrs)), zerolog: &zero}
}

// zerologKey is the key under which zerolog.Ctx looks for a logger in a context. zerolog does not export the
// key, and without it every run would need a logger of its own. So a call of zerolog.Ctx reveals the key.
var zerologKey = func() any {
	var asked keyRecorder
	zerolog.Ctx(&asked)
	return asked.key
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
func (l *Launcher) logEnd(r *run, err error, outcome job.Outcome) {
	exit := outcome.Exit()
	text := l.errorText(r.job.DisplayClass(), err)
	switch exit {
	case job.ExitRequeued, job.ExitSnoozed:
	case job.ExitCancelled:
		l.cfg.Log.Info().Str(zerolog.ErrorFieldName, text).Str("jid", r.job.JID()).Str("class", r.job.DisplayClass()).Str("queue", r.taken.Queue).
			Dur("took_ms", time.Since(r.startedAt)).Msg("run cancelled")
	default:
		event := l.cfg.Log.Warn().Str(zerolog.ErrorFieldName, text)
		if panicked := retry.Panicked(err); panicked != nil {
			event.Str("stack", cutLines(panicked.Stack, mostStack))
		}
		info := r.info()
		if exit == job.ExitRetry {
			event.Dur("again_in_ms", outcome.After())
		}
		event.Str("jid", info.JID).Str("class", r.job.DisplayClass()).Str("queue", info.Queue).Int("attempt", info.Attempt).
			Str("exit", string(exit)).Msg("run failed")
	}
	l.logRun(r, text, exit)
}

// logRun logs a run, whatever its outcome. At level debug only: at full speed a line per job costs more than
// the job.
func (l *Launcher) logRun(r *run, text string, exit job.Exit) {
	event := l.cfg.Log.Debug()
	if !event.Enabled() {
		return
	}
	if text != "" {
		event.Str(zerolog.ErrorFieldName, text)
	}
	if l.cfg.Logging.Args {
		if r.outcome == nil { // set before: if the redaction ends the goroutine, the run is done all the same
			done := job.Done()
			r.outcome = &done
		}
		event.Str("args", l.argsText(r.job))
	}
	event.Str("jid", r.job.JID()).Str("class", r.job.DisplayClass()).Str("queue", r.taken.Queue).
		Str("exit", string(exit)).Dur("took_ms", time.Since(r.startedAt)).Msg("run")
}

// errorText returns what may be shown of a run's error.
func (l *Launcher) errorText(class string, err error) string {
	if l.cfg.Logging.RedactError == nil {
		return logbook.Cut(retry.Text(err), mostText)
	}
	return logbook.Cut(redacted(func() string { return l.cfg.Logging.RedactError(class, err) }), mostText)
}

// argsText returns what may be shown of a job's arguments. It is a text even if they are JSON, so that a log
// store does not make a field of each argument.
func (l *Launcher) argsText(j *job.Job) string {
	args := j.ArgsJSON()
	if hide := l.cfg.Logging.Redact; hide != nil {
		args = redacted(func() string { return string(hide(j.DisplayClass(), json.RawMessage(args))) })
	}
	return logbook.Cut(args, mostArgs)
}

// redacted returns the result of a redaction.
func redacted(ask func() string) (text string) {
	defer func() {
		if recover() != nil {
			text = unshown
		}
	}()
	return ask()
}
