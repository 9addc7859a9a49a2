# frozen_string_literal: true

require "redis"
require "sidekiq/cli" # a process that has loaded it counts as a server, as under bin/sidekiq
require "sidekiq/launcher"

# Noop is the job that does nothing but tell that it runs.
class Noop
  include Sidekiq::Worker

  class << self
    # handler is called with the job's number and its jid.
    attr_accessor :handler
  end

  def perform(number)
    self.class.handler.call(number, jid)
  end
end

# WarmUp is the job that shows that the worker is up.
class WarmUp < Noop
end

# WelcomeEmail is never run: its jobs are stored and weighed.
class WelcomeEmail
  include Sidekiq::Worker
end

# Setup is how Sidekiq is set up here: as bin/sidekiqload, its authors' own benchmark, does it, and then what was faster on
# the machine where it was tried. peer.rb says what that was.
module Setup
  # BEST_CONCURRENCY is what Sidekiq chooses for itself, and was the fastest.
  BEST_CONCURRENCY = 10

  # BULK is the size that Sidekiq's documentation advises for push_bulk, and the fastest.
  BULK = 1000

  # BEST_POLL is the shortest average interval, in seconds, between two looks for jobs that have fallen due that one would
  # set in earnest: every process looks, and each look moves jobs one by one.
  BEST_POLL = 1

  # SPARE are the connections for heartbeat, poller and the like, as in Sidekiq's own reckoning.
  SPARE = 5

  # prepare sets the options and opens a connection. The queue is the only one that a worker takes from.
  def self.prepare(task, queue: "default")
    # redis-rb 4.8 warns of a deprecated form of BRPOP that Sidekiq 6.4 uses: one line and one stack trace a job, which
    # took more than half of the speed.
    Redis.silence_deprecations = true
    Redis.sadd_returns_boolean = false
    Sidekiq.logger.level = Logger::ERROR
    Sidekiq.strict_args!(false) # else it makes each job's JSON twice, to warn of arguments that JSON does not keep
    @best = task[:best]
    chosen = @best ? BEST_CONCURRENCY : task[:concurrency].to_i
    Sidekiq.options[:concurrency] = chosen if chosen.positive? # else the default
    Sidekiq.options[:poll_interval_average] = BEST_POLL if @best
    Sidekiq.options[:queues] = [queue]
    connections = Sidekiq.options[:concurrency] + task[:producers].to_i + SPARE
    Sidekiq.redis = { url: task[:url], size: connections, driver: driver }
    Sidekiq.redis(&:ping)
  end

  # driver is hiredis, which is C, where it is installed: Sidekiq's own benchmark names it. Its Ruby fallback is slower than
  # the driver that redis-rb brings along.
  def self.driver
    @driver ||= begin
      require "hiredis/ext/connection"
      require "redis/connection/hiredis"
      :hiredis
    rescue LoadError
      :ruby
    end
  end

  # start starts the worker inside this process.
  def self.start
    Sidekiq::Launcher.new(Sidekiq.options).run
  end

  # settings says in words what was chosen.
  def self.settings
    "concurrency #{Sidekiq.options[:concurrency]}, #{yjit? ? 'YJIT' : 'no JIT'}, #{driver} driver"
  end

  # poll_settings says how often jobs that are due are looked for. Sidekiq varies the interval by half.
  def self.poll_settings
    @best ? "a look every #{BEST_POLL} s" : "a look every 5 s (default)"
  end

  def self.yjit?
    defined?(RubyVM::YJIT) && RubyVM::YJIT.enabled?
  end

  # push_all stores the jobs in bulk; the block says the arguments of each. at are the instants at which they are due.
  def self.push_all(jobs, klass, at: nil)
    (0...jobs).each_slice(BULK) do |numbers|
      items = { "class" => klass, "args" => numbers.map { |number| yield number } }
      items["at"] = at.values_at(*numbers) if at
      Sidekiq::Client.push_bulk(items)
    end
  end
end
