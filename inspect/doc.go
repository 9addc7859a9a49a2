// Package inspect is what an operator sees and may repair: counters, queues, sets, processes and what they run.
//
// It exists so that the command line, the dashboard and tests read the same picture, in a shape that scripts can rely
// on: the JSON names below are a contract. Everything is read in pages of bounded size, without KEYS or SCAN, from the
// keys that Sidekiq's own tools read, so Ruby's processes show as well as Belay's. What another program has written
// may be odd: one entry that cannot be read is named among the problems and hides nothing else.
//
// A picture is no snapshot. It is read in several round trips, while jobs move on; only what stands in one script's
// answer was true at one instant. So whoever acts on what he has seen names the jobs by their bytes, and a script finds
// out whether they are still there: see Inspector.Act.
//
// Looking must never change anything, nor fail because of what one key holds. Acting must never touch a job that is in a
// process' hands, nor take a job out of one place without putting it into another in the same step, unless it is to be
// deleted.
package inspect
