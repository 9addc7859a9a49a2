# ActiveJob's side of the tests, on the sidekiq adapter that Rails brings.
#
# ruby jobs.rb pushes one job of each class and prints their ids; sidekiq -r ./jobs.rb runs what is in the queue
# "ruby", and appends what perform was given to the file LEDGER.

require "active_job"
require "active_support/all"
require "global_id"
require "json"
require "sidekiq"

Sidekiq.configure_client { |config| config.redis = {url: ENV.fetch("REDIS_URL")} }
Sidekiq.configure_server do |config|
  config.redis = {url: ENV.fetch("REDIS_URL")}
  config.options[:poll_interval_average] = 0.1
end
Sidekiq.logger = Logger.new($stderr, level: Logger::ERROR)

GlobalID.app = "shop"
I18n.available_locales = [:en, :de]
Time.zone_default = Time.find_zone!("Europe/Berlin") # of all threads
ActiveJob::Base.queue_adapter = :sidekiq
ActiveJob::Base.logger = nil

User = Struct.new(:id) do
  include GlobalID::Identification

  def self.find(id)
    new(id.to_i)
  end
end

module Billing
  class InvoiceJob < ActiveJob::Base
    queue_as :go

    def perform(*args, **keywords)
      line = JSON.generate([args.inspect, keywords.inspect, I18n.locale, Time.zone.name, queue_name, executions, provider_job_id]) + "\n"
      File.open(ENV.fetch("LEDGER"), File::WRONLY | File::APPEND | File::CREAT) { |file| file.syswrite(line) }
      raise "not yet" if args.first == :fails
    end
  end
end

if $PROGRAM_NAME == __FILE__
  time = Time.new(2026, 11, 23, 8, 30, Rational(123_456_789, 1_000_000_000), "+01:00")
  given = [42, 9_007_199_254_740_993, 1.0, nil, :high, "é<_aj_>", User.new(7), time, time.in_time_zone, time.to_datetime, Date.new(2026, 11, 23),
    90.seconds, 1.5.seconds, BigDecimal("12.50"), Billing, [:a, [5.minutes]], {"deep" => {user: User.new(8), at: time}}]
  I18n.with_locale(:de) do
    job = Billing::InvoiceJob.perform_later(*given, template: "short", days: 2.days)
    plain = Billing::InvoiceJob.set(wait: 0.2.seconds).perform_later
    puts JSON.generate([job.job_id, plain.job_id])
  end
end
