// Package fuel rewrites a module so that it stops by itself after a number of steps.
//
// The runtime cannot stop compiled code that does not return: it has no such check, and code in a tight loop even keeps the
// garbage collector of the whole process waiting. Its own answer, CloseOnContextDone, leaves the compiled code on every
// turn of every loop and costs a factor of ten to a hundred. Rewrite puts the check into the module instead. A global
// counts down:
//
//	function entry     16 + locals + greatest height of the operand stack: the slots of its frame, so that recursion is
//	                   bounded by what a stack of that depth takes
//	loop header        1 + instructions of a turn / 8
//	straight code      16 after every 128 instructions that no other check has counted
//	bulk operations    bytes or elements / 8, before they run
//	memory.grow        1,024: what grows is bounded by the maximum that every memory and table gets here
//	table.grow
//
// No path runs more than 128 instructions, or 8 for each unit, without a check: of two branches that meet the longer one
// counts. Charges depend on the code and its operands alone, so the same input always uses the same fuel, on every machine
// and in both engines of the runtime.
//
// The global holds a slice of the fuel. Code that finds it below zero calls a function that Rewrite adds. That function passes
// through the runtime once (memory.grow by nothing does), so that a collection or another goroutine waits for a slice and not
// for the whole budget; then it takes the next slice from a second global, and runs into unreachable when there is not enough
// left.
//
// Both globals are appended and exported. The code that was there before cannot name them, because package wasm has compared
// every index with the globals that existed. The host fills the Tank before each call and looks at it after. A trap with less
// than nothing left means that the fuel ran out.
//
// Rewrite also gives every memory and table a maximum, and drops all custom sections but well-formed names. The indexes of
// functions stay what they were, so stack traces are right.
package fuel
