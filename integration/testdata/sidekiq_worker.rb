# A Ruby worker for jobs that Belay pushed: sidekiq -r sidekiq_worker.rb
#
# Ran appends what it was given to the file LEDGER, one line a run; Raises fails as Ruby fails.

require "sidekiq"
require ENV["BELAY_RB"] if ENV["BELAY_RB"]

Sidekiq.configure_server do |config|
  config.redis = {url: ENV.fetch("REDIS_URL")}
  # A poller as eager as Belay's: without it the first look is some ten seconds away.
  config.options[:poll_interval_average] = Float(ENV.fetch("POLL", "0.1"))
  config.options[:queues] += ENV.fetch("QUEUES", "").split(",")
end

class Ran
  include Sidekiq::Worker

  def perform(*args)
    line = JSON.generate([jid, JSON.generate(args)]) + "\n"
    File.open(ENV.fetch("LEDGER"), File::WRONLY | File::APPEND | File::CREAT) { |file| file.syswrite(line) }
  end
end

# WelcomeEmail is a class that moves to Go. WELCOME=gone is the version without its perform.
class WelcomeEmail
  include Sidekiq::Worker

  if ENV["WELCOME"] != "gone"
    def perform(*args)
      sleep 0.02
      Ran.new.tap { |ran| ran.jid = jid }.perform(*args)
    end
  end
end

# Waits runs until the file that it is given exists.
class Waits
  include Sidekiq::Worker

  def perform(path)
    sleep 0.01 until File.exist?(path)
  end
end

class Raises
  include Sidekiq::Worker

  def perform(*)
    raise ArgumentError, "no é <today> & \u2028 never"
  end
end
