// Package verdict judges the histories of a chaos run by six rules. Its input is what pushers, handlers and
// the nemesis wrote (package history), what lies in Redis at the end, and how often Redis gave each job to a
// worker.
//
//   - Lost: each accepted job is done, or dead for a reason, or an operator has cancelled it.
//   - Phantom: each start has a push and a take, with the bytes of the push, and none follows a recorded
//     success.
//   - Early: no job starts before its time by Redis' clock.
//   - Late: the jobs of a killed process run again in the promised time.
//   - Skipped: a checkpointed job goes on after an item that was done, and does each item before it ends.
//   - Repeated: its cursor never goes back; a run after a stop or a failure repeats no item, and after a crash
//     at most those since the last save.
//
// Package oracle judges every single step in Redis: counts, bytes, places, who may recover what. This package
// judges what Redis cannot see: the answers that pushers got, and when handlers ran. It never reads a clock, a
// file or a server: everything is an argument.
package verdict
