// Package args maps Go values to the arguments of a job, and back.
//
// It exists because a job's arguments are a list, as for Ruby's perform(user_id, team_id), and Go has no
// type for a list whose elements differ in type. Here a struct represents the list, and a [Shape] is the
// mapping between the two. [For] computes it once per type, when the program starts, and refuses a type
// that would lose data.
//
// These are all of its rules. T is the type that represents the whole list.
//
// # Which values are arguments
//
//   - A struct's exported fields, in order, are the arguments: {42, 7} is [42,7]. Only their order counts,
//     not their names, so a new field goes last. The fields of an embedded struct take its place,
//     unless it has a name in JSON; then it is one argument. A field tagged belay:"-" or json:"-" is none.
//     A field that is not exported needs such a tag, because no job would have its value.
//   - Any other T is one argument: int is [5], and []int is [[1,2]]. So is a struct with its own MarshalJSON
//     or MarshalText, such as time.Time. struct{} is no argument.
//   - The last field may be a slice tagged belay:",rest": its elements are the arguments after the others.
//     struct{ IDs []int `belay:",rest"` } is perform(*ids).
//   - A field tagged json:",omitempty" or json:",omitzero" is omitted if it is empty and nothing follows it;
//     Ruby then uses its default. Before other arguments it is always written, or they would move up.
//
// # How they are written
//
//   - Numbers keep all their digits: int64 and uint64 are exact, and a float keeps its fraction: 12.0.
//   - Structs inside an argument are objects by encoding/json's rules, []byte is Base64, time.Time RFC 3339.
//     Maps are written in the order of their keys.
//   - A type with its own MarshalJSON or MarshalText is always written by that method, even if only its
//     pointer has the method, as with big.Int.
//
// # How they are read
//
//   - A missing argument at the end is a zero value: older producers may not send it. A surplus argument is
//     an [Error]; otherwise it would be lost silently.
//   - A pointer is an argument that may be null. For other types null is the zero value.
//   - In an any a number is a json.Number, because no float64 is 9007199254740993 and 1.0 must stay 1.0.
//     json.RawMessage keeps an argument's text; job.Marshal respells it when it is written again.
//   - An argument of a wrong type is an [Error], which shows types and never the argument.
//
// The package must never write a value that cannot be read again, and never show an argument in a message.
package args
