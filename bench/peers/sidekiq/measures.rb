# frozen_string_literal: true

# Measures are the measures of the bench, by name. Package subject of the bench says what each is; each begins when the bench
# has read ready, and answers with the fields of done.
module Measures
  # NOTICE is how many seconds ahead of its instant a future job is stored at the least: storing is never what is late.
  NOTICE = 3

  # SLOWEST_PUSH is a rate, in jobs a second, at which they are stored even on a slow machine.
  SLOWEST_PUSH = 5000

  # IDLE is for how many seconds a worker has nothing to do before it counts as idle.
  IDLE = 1

  RECOVER = "recover"

  module_function

  def version(_task, talk)
    talk.say_and_wait("ready")
    { settings: "Sidekiq #{Sidekiq::VERSION}, redis-rb #{Redis::VERSION} (#{Setup.driver}), Ruby #{RUBY_VERSION}" }
  end

  # UNACKNOWLEDGED is what is different in Sidekiq's drain: the others' figures hold one more write to Redis for each job.
  UNACKNOWLEDGED = "basic fetch acknowledges nothing: a job counts when its handler has returned"

  def drain(task, talk)
    Setup.prepare(task)
    tally = Tally.new(task[:jobs])
    Noop.handler = ->(number, _) { tally.note(number) }
    talk.say_and_wait("ready")
    push_noops(task, talk)
    seconds = Clock.time do
      Setup.start
      tally.wait(task[:jobs] / 1000 + Tally::PATIENCE) # a thousand a second is slow
    end
    { seconds: seconds, settings: "#{Setup.settings}; #{UNACKNOWLEDGED}" }
  end

  def push_noops(task, talk)
    seconds = Clock.time { Setup.push_all(task[:jobs], Noop) { |number| [number] } }
    talk.say_and_wait("pushed", seconds: seconds)
  end

  def enqueue(task, talk)
    Setup.prepare(task)
    talk.say_and_wait("ready")
    producers = task[:producers]
    seconds = Clock.time do
      each_in_thread(producers) do |first|
        first.step(task[:jobs] - 1, producers) { |number| Noop.perform_async(number) }
      end
    end
    { seconds: seconds, settings: "#{producers} threads, a connection each, #{Setup.driver} driver" }
  end

  def bulk(task, talk)
    Setup.prepare(task)
    talk.say_and_wait("ready")
    seconds = Clock.time { Setup.push_all(task[:jobs], Noop) { |number| [number] } }
    { seconds: seconds, settings: "push_bulk of #{Setup::BULK}, one thread, #{Setup.driver} driver" }
  end

  def push(task, talk)
    Setup.prepare(task)
    talk.say_and_wait("ready")
    seconds = Clock.time do
      Setup.push_all(task[:jobs], WelcomeEmail) { |number| [number, "welcome", { "locale" => "en" }] }
    end
    talk.say_and_wait("pushed", seconds: seconds)
    { seconds: seconds, settings: "default options of a job" }
  end

  # SENDERS are the threads that enqueue in latency, in turn: enough that a push that is slow holds up none of the next.
  SENDERS = 10

  def latency(task, talk)
    Setup.prepare(task.merge(producers: SENDERS))
    talk.say_and_wait("ready")
    tally = Tally.new((task[:rate] * task[:seconds]).to_i)
    Noop.handler = ->(number, _) { tally.note(number, Clock.now) }
    warm_up
    begin_at = Clock.now + IDLE
    tally.due.map!.with_index { |_, number| begin_at + (number + rand) / task[:rate] }
    behind = send_at(tally.due)
    finish(tally).merge(extra: { sent_late_us: behind.sort[behind.size / 2] * 1e6 })
  end

  # send_at enqueues a job at each of the instants, and answers by how many seconds each was sent late.
  def send_at(instants)
    behind = Array.new(instants.size, 0.0)
    each_in_thread(SENDERS) do |first|
      first.step(instants.size - 1, SENDERS) do |number|
        Clock.sleep_until(instants[number])
        behind[number] = Clock.now - instants[number]
        Noop.perform_async(number)
      end
    end
    behind
  end

  def schedule(task, talk)
    scheduled(task, talk, (task[:rate] * task[:seconds]).to_i) do |due|
      begin_at = Clock.wall + NOTICE
      due.map!.with_index { |_, number| begin_at + number / task[:rate].to_f }
    end
  end

  def burst(task, talk)
    scheduled(task, talk, task[:jobs]) do |due|
      due.fill((Clock.wall + NOTICE + 1 + task[:jobs].to_f / SLOWEST_PUSH).floor)
    end
  end

  # scheduled runs a worker, stores jobs for the instants that the block writes, and answers how late they began.
  def scheduled(task, talk, jobs)
    Setup.prepare(task)
    talk.say_and_wait("ready")
    tally = Tally.new(jobs)
    Noop.handler = ->(number, _) { tally.note(number, Clock.wall) }
    warm_up(scheduled: true)
    yield tally.due
    Setup.push_all(jobs, Noop, at: tally.due) { |number| [number] }
    raise "storing #{jobs} jobs took until they were due: ask for fewer" if tally.due.first < Clock.wall

    finish(tally, tally.due.last - Clock.wall).merge(settings: "#{Setup.settings}, #{Setup.poll_settings}")
  end

  def victim(task, talk)
    Setup.prepare(task, queue: RECOVER)
    tally = Tally.new(task[:jobs])
    Noop.handler = lambda do |number, _|
      tally.note(number)
      sleep 60 # far longer than the bench needs to kill this process
    end
    talk.say_and_wait("ready")
    task[:jobs].times { |number| Noop.set(queue: RECOVER).perform_async(number) }
    Setup.start
    tally.wait
    talk.say_and_wait("holding")
    {}
  end

  # survivor runs nothing that a victim had in hand: basic fetch takes a job out of Redis before it runs. It is measured all
  # the same.
  def survivor(task, talk)
    Setup.prepare(task, queue: RECOVER)
    Noop.handler = ->(_, jid) { talk.say("ran", jid: jid, unix_ns: (Clock.wall * 1e9).to_i) }
    talk.say_and_wait("ready")
    Setup.start
    sleep # until the bench is done with it
  end

  # warm_up starts the worker and returns when it has run a job and has then had nothing to do for a while. A scheduled one
  # waits for the poller's first look as well, which comes ten to fifteen seconds after the start: no event reports it
  # that is late in a worker which has been running.
  def warm_up(scheduled: false)
    up = Tally.new(1)
    WarmUp.handler = ->(number, _) { up.note(number) }
    Setup.start
    scheduled ? WarmUp.perform_in(0.1, 0) : WarmUp.perform_async(0)
    up.wait
    sleep IDLE
  end

  # finish waits for the last job, which may be due only in so many seconds.
  def finish(tally, seconds = 0)
    tally.wait(seconds + Tally::PATIENCE)
    { latencies_us: tally.latencies_us, settings: Setup.settings }
  end

  def each_in_thread(count)
    threads = Array.new(count) { |index| Thread.new { yield index } }
    threads.each(&:value)
  end
end
