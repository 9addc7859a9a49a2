# A Ruby worker that keeps the jobs that it runs as GitLab's reliable fetch does: sidekiq -r gitlab_worker.rb
#
# The names of keys, the order of commands and the cleaner's patterns are those of the gem sidekiq-reliable-fetch.
# LIFESPAN is the heartbeat's, in seconds (the gem: 60; it sends one three times in that time). SEMI makes it the
# semi-reliable fetch, LEGACY gives processes no nonce, CLEANS makes a cleaner of it that looks once in CLEANS seconds
# (the gem: an hour) and runs no jobs of its own.

require "sidekiq"
require "socket"
require "securerandom"

LIFESPAN = Integer(ENV.fetch("LIFESPAN", "60"))
IDENTITY = [Socket.gethostname, Process.pid, *(SecureRandom.hex(6) unless ENV["LEGACY"])].join(":")

def heartbeat_of(identity)
  "reliable-fetcher-heartbeat-#{identity.tr(":", "-")}"
end

def beat
  Sidekiq.redis { |conn| conn.set(heartbeat_of(IDENTITY), 1, ex: LIFESPAN) }
end

class Keeps
  Held = Struct.new(:queue, :job) do
    def list
      "working:#{queue}:#{IDENTITY}"
    end

    def queue_name
      queue.delete_prefix("queue:")
    end

    def acknowledge
      Sidekiq.redis { |conn| conn.lrem(list, 1, job) }
    end

    def requeue
      Sidekiq.redis do |conn|
        conn.multi do |steps|
          steps.lpush(queue, job)
          steps.lrem(list, 1, job)
        end
      end
    end
  end

  def initialize(options)
    @queues = options[:queues].uniq.map { |name| "queue:#{name}" }
  end

  def retrieve_work
    ENV["SEMI"] ? pop_then_keep : move
  end

  # What runs still at the end of a stop is one interruption older.
  def bulk_requeue(held, _options)
    held.each do |one|
      Sidekiq.redis do |conn|
        conn.multi do |steps|
          steps.lpush(one.queue, interrupted(one.job))
          steps.lrem(one.list, 1, one.job)
        end
      end
    end
  end

  private

  def move
    @queues.shuffle.each do |queue|
      job = Sidekiq.redis { |conn| conn.rpoplpush(queue, Held.new(queue).list) }
      return Held.new(queue, job) if job
    end
    sleep 0.2 # the gem: 5 seconds
    nil
  end

  def pop_then_keep
    queue, job = Sidekiq.redis { |conn| conn.brpop(*@queues.shuffle, 1) }
    return unless job

    Held.new(queue, job).tap { |held| Sidekiq.redis { |conn| conn.lpush(held.list, job) } }
  end
end

def interrupted(job)
  hash = Sidekiq.load_json(job)
  Sidekiq.dump_json(hash.merge("interrupted_count" => hash["interrupted_count"].to_i + 1))
end

# The gem's cleaner: every list whose name has a process without a heartbeat is emptied into the queue of its name.
# NAMESPACE is that of redis-namespace, which puts it before every key.
module Cleaner
  BY_NONCE = /working:(queue:.*):([^:]*:[0-9]*:[0-9a-f]*)\z/
  LEGACY = /working:(queue:.*):([^:]*:[0-9]*)\z/

  def self.look(namespace)
    Sidekiq.redis do |conn|
      conn.scan_each(match: "#{namespace}working:queue:*", count: 1000) do |key|
        name = key.delete_prefix(namespace)
        queue, identity = (name.scan(BY_NONCE) + name.scan(LEGACY)).first
        next if queue.nil? || conn.get(namespace + heartbeat_of(identity))

        while (job = conn.rpop(key))
          conn.lpush(namespace + queue, interrupted(job))
        end
      end
      conn.incr("cleaner-looked")
    end
  end
end

# Writes that it has begun, and waits until the file that it is given exists.
class Held
  include Sidekiq::Worker

  def perform(path, *)
    File.open(ENV.fetch("LEDGER"), File::WRONLY | File::APPEND | File::CREAT) { |file| file.syswrite("#{jid}\n") }
    sleep 0.01 until File.exist?(path)
  end
end

if ENV["CLEANS"]
  Sidekiq.configure_client { |config| config.redis = {url: ENV.fetch("REDIS_URL")} }
  loop do
    ENV.fetch("NAMESPACES", "").split(",", -1).each { |namespace| Cleaner.look(namespace) }
    sleep Float(ENV["CLEANS"])
  end
else
  Sidekiq.configure_server do |config|
    config.redis = {url: ENV.fetch("REDIS_URL")}
    config.options[:fetch] = Keeps.new(config.options)
    beat
    Thread.new do
      loop do
        sleep LIFESPAN / 3.0
        beat
      end
    end
  end
end
