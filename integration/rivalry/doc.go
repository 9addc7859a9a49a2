// Package rivalry judges what became of rivals: jobs of one kind, of which only one at a time was to be accepted. It reads
// nothing but what those who pushed and those who worked wrote down themselves (package history), and so it does not matter to
// it how Redis was told. It exists beside the oracle, which judges Redis' own log, because of what only people see: the answer
// that a push was given, and which handler ran when.
//
// It holds that
//
//   - each job that was accepted has ended, and no other has started;
//   - none was accepted while another of its kind was known to hold their lock: until it started, or until it had ended, as its
//     class says;
//   - each that was refused named a job that may have held the lock then;
//   - a class that runs once more for those refused does so exactly once, if one was refused while the job ran, and not at all
//     if none can have been.
//
// Clocks are the histories': what was written down is later than what it tells by an unknown time. What that leaves open is
// lawful, and so is what a worker's departure or an outage of Redis may have hidden.
package rivalry
