# frozen_string_literal: true

# This program is Ruby Sidekiq as a subject of the bench. Package subject of the bench says what a subject is.
#
# Sidekiq runs inside this process as in bin/sidekiqload, its authors' own benchmark: a Sidekiq::Launcher, the log at
# ERROR, one queue. The rest was tried on 2026-11-21, on 2 cores with Ruby 3.1.2, redis-rb 4.8.0 and Redis 7.0.15, with
# 20,000 to 40,000 jobs that do nothing; each figure is jobs a second, the best of three interleaved runs on a machine that
# others used as well:
#
#   drain, concurrency 10, YJIT, hiredis        25,400   chosen
#   drain, concurrency 25, YJIT, hiredis        23,900   and 21,500 with 5
#   drain, concurrency 10, YJIT, Ruby driver    19,900
#   drain, concurrency 10, no JIT, Ruby driver  15,500
#   the same with redis-rb's warnings            5,600   it writes one for each job unless configured not to
#   drain with a job logger that does nothing            no faster than with the log at ERROR
#   10 threads enqueue, arguments unchecked     24,500   chosen
#   10 threads enqueue, arguments checked       22,900   Sidekiq's default
#   push_bulk of 1,000, one thread             120,000   no fewer than of 500 or 5,000, or with 2 or 4 threads
#
# What is not set is Sidekiq's default. For jobs that are due later one setting matters, how often they are looked for:
# with "best" that is once a second on average, else every five seconds.

# YJIT can only be switched on as Ruby starts.
if defined?(RubyVM::YJIT) && !RubyVM::YJIT.enabled?
  exec(RbConfig.ruby, "--yjit", __FILE__)
end

require_relative "talk"
require_relative "tally"

MEASURES = %w[version drain enqueue bulk push latency schedule burst victim survivor].freeze

# run does the bench's task and answers the exit status.
def run(talk)
  measure = talk.task[:measure]
  raise "measure #{measure.inspect}: this subject knows #{MEASURES.join(', ')}" unless MEASURES.include?(measure)

  require_relative "worker"
  require_relative "measures"
  talk.say("done", **Measures.public_send(measure, talk.task, talk))
  0
rescue LoadError => e
  talk.say("failed", text: "Sidekiq is not installed for #{RbConfig.ruby}: apt-get install ruby-sidekiq ruby-hiredis (#{e.message})")
  1
rescue StandardError => e
  warn e.full_message(highlight: false)
  talk.say("failed", text: e.message)
  1
end

# exit! and not exit: a worker's orderly end would take seconds, and nothing needs its output.
exit!(run(Talk.new($stdin, $stdout)))
