# One way of using contrib/ruby/belay.rb: ruby unique_modes.rb MODE. It prints what it found as one JSON object.

require "sidekiq"
require "sidekiq/testing" if ARGV[0] == "testing first"
require ENV.fetch("BELAY_RB")
require "active_job" if ARGV[0] == "active job"
require "active_support/core_ext/string/inflections" if ARGV[0] == "inline" # Sidekiq 6.4.1 uses it without requiring it
require "sidekiq/testing" if ARGV[0] == "testing last"

URL = ENV.fetch("REDIS_URL")
Sidekiq.configure_client { |config| config.redis = {url: URL} }

class Once
  include Sidekiq::Worker
  sidekiq_options queue: "once", belay_unique: {until: "until_executed"}
  RUNS = []

  def perform(n) = RUNS << n
end

# What redis-namespace does to the commands that Sidekiq's client and belay.rb use.
class Namespace
  attr_reader :redis, :namespace

  def initialize(redis, namespace, pipeline = nil)
    @redis, @namespace, @pipeline = redis, namespace, pipeline
  end

  def pipelined = @redis.pipelined { |pipeline| yield Namespace.new(@redis, @namespace, pipeline) }
  def lpush(key, values) = (@pipeline || @redis).lpush("#{@namespace}:#{key}", values)
  def sadd(key, values) = (@pipeline || @redis).sadd("#{@namespace}:#{key}", values)
  def call(*words) = @redis.call(*words)
end

def raised
  yield
  nil
rescue => e
  e.class.name
end

def keys(url = URL) = Redis.new(url: url).keys.sort

found = case ARGV[0]
when "plain"
  {pushed: [Once.perform_async(1), Once.perform_async(1), Once.perform_async(2)].map { |jid| !jid.nil? },
   bulk: Once.perform_bulk([[2], [3], [3]]).size}
when "namespace"
  Sidekiq.redis = ConnectionPool.new(size: 1) { Namespace.new(Redis.new(url: URL), "ns") }
  {pushed: [Once.perform_async(1), Once.perform_async(1)].map { |jid| !jid.nil? }, keys: keys}
when "testing first", "testing last"
  Sidekiq::Testing.fake!
  fake = [Once.perform_async(1), Once.perform_async(1)].map { |jid| !jid.nil? }
  size = Once.jobs.size
  Once.drain
  Sidekiq::Testing.inline! { Once.perform_async(7) }
  {pushed: fake, size: size, runs: Once::RUNS, keys: keys}
when "inline"
  {ran: Once.new.class.perform_inline(5), runs: Once::RUNS, keys: keys}
when "strict"
  Sidekiq.strict_args!(:raise) if Sidekiq.respond_to?(:strict_args!)
  # A check that stands behind all middleware, as Sidekiq 7's own does.
  Sidekiq::Client.prepend(Module.new do
    private

    def raw_push(payloads)
      raise ArgumentError, "refused" if payloads.any? { |job| job["args"] == [13] }
      super
    end
  end)
  {raised: [raised { Once.perform_async(Time.now) }, raised { Once.perform_async(13) }], keys: keys}
when "active job"
  ActiveJob::Base.queue_adapter = :sidekiq
  ActiveJob::Base.logger = nil
  class Mail < ActiveJob::Base
    include Sidekiq::Worker::Options
    sidekiq_options belay_unique: {until: "until_executed"}

    def perform(*) = nil
  end
  {raised: [raised { Mail.perform_later(1) }], keys: keys}
when "via"
  other = URL.sub(%r{/\d+\z}, "/1")
  pool = ConnectionPool.new(size: 1) { Redis.new(url: other) }
  pushed = Sidekiq::Client.via(pool) { [Once.perform_async(1), Once.perform_async(1)] }
  {pushed: pushed.map { |jid| !jid.nil? }, keys: keys, others: keys(other)}
end
puts JSON.generate(found)
