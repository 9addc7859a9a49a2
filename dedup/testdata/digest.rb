# The digests of unique jobs, written from the documentation of Digest and from nothing else.
# Reads a JSON array of {"class", "queue", "args"} objects, args being JSON in a string, and prints a digest a line.
require "bigdecimal"
require "digest"
require "json"

def text(s)
  "#{s.bytesize}:".b + s.b
end

def number(n)
  sign, digits, _, exponent = n.to_d.split # 0.DIGITS * 10**exponent
  return "0" if n.zero?
  "#{"-" if sign < 0}#{digits}e#{exponent - digits.length}"
end

def value(v)
  case v
  when nil then "n".b
  when true then "t".b
  when false then "f".b
  when String then "s".b + text(v)
  when Numeric then "d".b + text(number(v))
  when Array then "[".b + v.map { |element| value(element) }.join + "]".b
  when Hash
    members = v.sort_by { |name, _| name.b }.map { |name, member| text(name) + value(member) }
    "{".b + Digest::SHA256.digest(members.join)
  end
end

class Integer
  def to_d = BigDecimal(self)
end

class BigDecimal
  def to_d = self
end

JSON.parse($stdin.read).each do |job|
  args = JSON.parse(job["args"], decimal_class: BigDecimal, max_nesting: false)
  puts Digest::SHA256.hexdigest(text("belay unique v1") + text(job["class"]) + text(job["queue"]) + value(args))[0, 32]
end
