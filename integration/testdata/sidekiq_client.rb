# Ruby's side of the tests: Sidekiq's own client and API, asked through standard input.
#
# A line in is a JSON array, ["verb", argument...]; the line out is {"value": ...} or {"error": "..."}. One process
# answers all questions of a test, because starting Ruby costs more than most of the answers.

require "sidekiq"
require "sidekiq/api"
require "sidekiq/web"
require "rack/mock"
require "securerandom"

Sidekiq.configure_client { |config| config.redis = {url: ENV.fetch("REDIS_URL")} }
Sidekiq.logger.level = Logger::WARN
require ENV["BELAY_RB"] if ENV["BELAY_RB"]

class Letter
  include Sidekiq::Worker
  sidekiq_options queue: "mail", retry: 3
end

class Note
  include Sidekiq::Worker
end

# Args that other languages like to spoil: whole numbers beyond 2^53, floats without a fraction, empty containers, key
# order, characters that are escaped elsewhere.
def odd_args(n)
  [n, 9_007_199_254_740_993, 12_345_678_901_234_567_890, 1.0, 1.0e20, -0.0, nil, true,
    [], {}, [[], {}], {"z" => 1, "a" => {"z" => []}}, "é<&>\u2028/\"\\\n", "#{n}"]
end

# What was pushed, as the worker must be given it.
def pushed(jid, queue, klass, args)
  {jid: jid, queue: queue, class: klass, args: JSON.generate(args)}
end

def plain(entry)
  {score: entry.score, at: entry.at.to_f, jid: entry.jid, class: entry.klass, queue: entry.queue,
   args: JSON.generate(entry.args), item: entry.item, is_error: entry.error?, error_class: entry["error_class"],
   error_message: entry["error_message"], error_backtrace: entry.error_backtrace, retry_count: entry["retry_count"],
   failed_at: entry["failed_at"] && Time.at(entry["failed_at"]).to_f, latency: entry.latency,
   created_at: entry.created_at.to_f, enqueued_at: entry.enqueued_at.to_f,
   same_bytes: Sidekiq.dump_json(entry.item) == entry.value}
end

def sets
  {"retry" => Sidekiq::RetrySet, "dead" => Sidekiq::DeadSet, "schedule" => Sidekiq::ScheduledSet}
end

def entry(set, jid)
  sets.fetch(set).new.find_job(jid) || raise("no #{jid} in #{set}")
end

def process(identity)
  Sidekiq::ProcessSet.new.find { |p| p.identity == identity } || raise("no process #{identity}")
end

# What operators see is a page: what was there when it was loaded, under the buttons that they click later.
PAGES = {}

def load_page(name)
  entries = sets.key?(name) ? sets[name].new : Sidekiq::Queue.new(name)
  PAGES[name] = entries.to_h { |e| [e.jid, e] }
end

# One click, at an instant. The answer is whether it did anything: what was pushed, or true.
def click(name, verb, jid, at)
  sleep([at - Time.now.to_f, 0].max)
  did = PAGES.fetch(name).fetch(jid).public_send(verb)
  did.is_a?(String) || did == true
end

VERBS = {
  "version" => -> { Sidekiq::VERSION },

  "perform_async" => lambda { |count|
    count.times.map do |n|
      klass, queue = n.even? ? [Letter, "mail"] : [Note, "default"]
      args = odd_args(n)
      pushed(klass.perform_async(*args), queue, klass.name, args)
    end
  },
  "push_bulk" => lambda { |count|
    args = count.times.map { |n| odd_args(n) }
    jids = Sidekiq::Client.push_bulk("class" => Letter, "args" => args)
    jids.zip(args).map { |jid, list| pushed(jid, "mail", "Letter", list) }
  },
  "push" => ->(item) { Sidekiq::Client.push(item) },
  # Two jobs of Rails' adapter, one of them for later.
  "active_job" => lambda { |queue|
    require "active_job"
    ActiveJob::Base.queue_adapter = :sidekiq
    ActiveJob::Base.logger = nil
    Object.const_set(:WelcomeJob, Class.new(ActiveJob::Base) { def perform(*) = nil }) unless defined?(WelcomeJob)
    args = [42, "é<&>", :high, {"a" => [1.5, nil]}]
    [WelcomeJob.set(queue: queue).perform_later(*args), WelcomeJob.set(queue: queue, wait: 60).perform_later(*args, to: "a")].size
  },
  # Jobs of a class that this process need not know, each due after a random part of span seconds.
  "perform_in" => lambda { |count, klass, queue, span|
    count.times.map do |n|
      Sidekiq::Client.push("class" => klass, "queue" => queue, "args" => [n], "at" => Time.now.to_f + rand * span)
    end
  },

  "processes" => lambda {
    set = Sidekiq::ProcessSet.new
    {size: set.size, total_concurrency: set.total_concurrency, total_rss: set.total_rss, leader: set.leader,
     processes: set.map { |p|
       {identity: p.identity, tag: p.tag, labels: p.labels, queues: p.queues, stopping: p.stopping?,
        hostname: p["hostname"], started_at: Time.at(p["started_at"]).to_f, started_class: p["started_at"].class.name,
        pid: p["pid"], concurrency: p["concurrency"], busy: p["busy"], beat: p["beat"], quiet: p["quiet"],
        rss: p["rss"], rtt_us: p["rtt_us"]}
     }}
  },
  "workers" => lambda {
    set = Sidekiq::Workers.new
    {size: set.size, works: set.map { |identity, tid, work| {identity: identity, tid: tid, work: work} }}
  },
  "quiet!" => ->(identity) { process(identity).quiet! && true },
  "stop!" => ->(identity) { process(identity).stop! && true },
  "dump_threads" => ->(identity) { process(identity).dump_threads && true },

  "stats" => lambda {
    # Two days, so that midnight fails no test.
    stats, days = Sidekiq::Stats.new, Sidekiq::Stats::History.new(2)
    {processed: stats.processed, failed: stats.failed, enqueued: stats.enqueued, retry_size: stats.retry_size,
     dead_size: stats.dead_size, processes_size: stats.processes_size, workers_size: stats.workers_size,
     queues: stats.queues, default_queue_latency: stats.default_queue_latency,
     processed_lately: days.processed.values.sum, failed_lately: days.failed.values.sum}
  },
  "queue" => lambda { |name|
    queue = Sidekiq::Queue.new(name)
    {size: queue.size, latency: queue.latency,
     jobs: queue.map { |j|
       {jid: j.jid, class: j.klass, args: JSON.generate(j.args), latency: j.latency, item: j.item, bytes: j.value}
     }}
  },

  "set" => ->(name) { sets.fetch(name).new.map { |e| plain(e) } },
  "reschedule" => ->(name, jid, at) { entry(name, jid).reschedule(Time.at(at)) },
  "retry" => ->(name, jid) { entry(name, jid).retry && true },
  "retry_all" => ->(name) { sets.fetch(name).new.retry_all },
  "kill" => ->(name, jid) { entry(name, jid).kill },
  "delete" => ->(name, jid) { entry(name, jid).delete && true },

  # A page of the dashboard, as a browser gets it.
  "page" => lambda { |path|
    env = Rack::MockRequest.env_for(path)
    env["rack.session"] = {csrf: SecureRandom.base64(32)}
    status, _, body = Sidekiq::Web.new.call(env)
    {status: status, html: body.each.to_a.join}
  },

  "queue_delete" => ->(name, jid) { Sidekiq::Queue.new(name).find_job(jid).delete },
  "queue_clear" => ->(name) { Sidekiq::Queue.new(name).clear && true },
  "clear" => ->(name) { sets.fetch(name).new.clear && true },

  "load_page" => ->(name) { load_page(name).size },
  "clicks" => ->(list) { list.map { |one| click(*one) } }
}.freeze

$stdout.sync = true
$stdin.each_line do |line|
  verb, *args = JSON.parse(line)
  answer = begin
    {value: VERBS.fetch(verb).call(*args)}
  rescue => e
    {error: "#{e.class}: #{e.message} (#{e.backtrace.first})"}
  end
  $stdout.puts JSON.generate(answer)
end
