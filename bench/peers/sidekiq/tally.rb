# frozen_string_literal: true

# A Tally is a set of numbered jobs, of which each is to run exactly once, and in it how long after its instant each began.
class Tally
  # PATIENCE is how many seconds the last of the jobs may take, counted from when all of them could have run.
  PATIENCE = 30

  # due is where the instant of each job is written, before it is stored, in seconds.
  attr_reader :due

  def initialize(jobs)
    @due = Array.new(jobs, 0.0)
    @late = Array.new(jobs, 0.0)
    @runs = Array.new(jobs, 0)
    @left = jobs
    @mutex = Mutex.new
    @all_ran = ConditionVariable.new
  end

  # note counts one run of job n, which began at that instant.
  def note(number, began = 0.0)
    @late[number] = began - @due[number]
    @mutex.synchronize do
      @runs[number] += 1
      @left -= 1
      @all_ran.signal if @left.zero?
    end
  end

  # wait returns when there have been as many runs as there are jobs, and makes sure that each has run once.
  def wait(seconds = PATIENCE)
    deadline = Clock.now + seconds
    @mutex.synchronize do
      while @left.positive?
        rest = deadline - Clock.now
        raise "#{@left} of #{@runs.size} jobs have not run after #{seconds.round} s" if rest <= 0

        @all_ran.wait(@mutex, rest)
      end
    end
    wrong = @runs.index { |runs| runs != 1 }
    raise "job #{wrong} ran #{@runs[wrong]} times" if wrong
  end

  # latencies_us are the microseconds from each job's instant to its beginning.
  def latencies_us
    @late.map { |seconds| (seconds * 1e6).round }
  end
end

# Clock reads the two clocks, in seconds: what is due at an instant that Redis keeps is late by the wall's clock, and all
# else is measured by the one that is never set.
module Clock
  # SPIN is the last stretch before an instant, which is not slept: Ruby wakes a thread some 100 µs late, and that much
  # would be Ruby's and not Sidekiq's.
  SPIN = 0.0005

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def self.wall = Process.clock_gettime(Process::CLOCK_REALTIME)

  # sleep_until returns at that instant of now.
  def self.sleep_until(instant)
    rest = instant - now - SPIN
    sleep(rest) if rest.positive?
    Thread.pass while now < instant
  end

  # time is how many seconds the block took.
  def self.time
    began = now
    yield
    now - began
  end
end
