// Package args says which Go values are which arguments of a job, and reads and writes them so.
//
// It exists because a job's arguments are a list, as for Ruby's perform(user_id, team_id), and Go has no type for a list
// whose elements differ. A struct stands for one here, and a [Shape] is how that struct and the list correspond: it is
// found out once for a type, when the program starts, and a type that could not do without loss is refused then ([For]).
//
// These are all of its rules. T is the type that stands for the whole list.
//
// # Which values are arguments
//
//   - A struct's exported fields, in order, are the arguments: {42, 7} is [42,7]. Their names count for nothing and their
//     order for everything, so that a new field goes last. The fields of an embedded struct stand in its place, unless it
//     has a name in JSON; then it is one argument. A field tagged belay:"-" or json:"-" is none.
//   - Any other T is one argument: int is [5], and []int is [[1,2]]. So is a struct that writes itself by MarshalJSON or
//     MarshalText, such as time.Time. struct{} is no argument at all.
//   - The last field may be a slice tagged belay:",rest": its elements are what stands behind the other arguments.
//     struct{ IDs []int `belay:",rest"` } is perform(*ids).
//   - A field tagged json:",omitempty" or json:",omitzero" is left out when it is empty and nothing follows it; Ruby then
//     takes its default. Before others it is written all the same, or those would move up.
//
// # How they are written
//
//   - Numbers keep all their digits: int64 and uint64 are exact, and a float keeps its fraction: 12.0.
//   - Structs, wherever they stand inside of an argument, are objects by encoding/json's rules, []byte is Base64, time.Time
//     RFC 3339. Maps are written in the order of their keys, which are strings.
//   - What writes itself only by a pointer, as big.Int does, is written so wherever it has an address: in a field, an
//     array, a slice, behind a pointer. The values of a map have none, and such a map is refused. What an any holds is not
//     known before it is there: put a pointer into it.
//
// # How they are read
//
//   - A missing argument at the end is a zero value: older producers did not know it. One too many is an [Error], because
//     it would be lost without a word.
//   - A pointer is an argument that may be null. For other types null is the zero value.
//   - In an any a number is a json.Number, because 9007199254740993 is no float64 and 1.0 is to stay 1.0. json.RawMessage
//     keeps an argument's text as it is; when it is written again, job.Marshal spells it.
//   - What does not fit is an [Error], which shows types and never the argument.
//
// The package must never let a value be written that could not be read again, and never show an argument in a message.
package args
