# frozen_string_literal: true

require "json"

# Talk is the conversation with the bench: one Task comes in on a line of standard input, Events go out, one a line.
# When standard input ends, the bench has ended, and so does this process: its results would have no reader.
class Talk
  attr_reader :task

  def initialize(input, output)
    @input = input
    @output = output
    @output.sync = true # an event must not wait in a buffer: the bench reads the clock when it comes
    @saying = Mutex.new
    @goes = Queue.new
    @task = JSON.parse(input.gets || raise("the bench gave no task"), symbolize_names: true)
    Thread.new { listen }
  end

  # say says one event and does not wait.
  def say(event, **fields)
    @saying.synchronize { @output.puts(JSON.generate({ event: event, **fields })) }
  end

  # say_and_wait says one event and returns when the bench has said to go on.
  def say_and_wait(event, **fields)
    say(event, **fields)
    @goes.pop
  end

  private

  def listen
    @goes << :go while @input.gets
    exit!(1)
  end
end
