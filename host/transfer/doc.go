// Package transfer writes what a store holds as lines of JSON, and makes a store of such lines: to move messages to another
// machine, to look at them with other tools, or to change what no server can change.
//
//	n, err := transfer.Export(env, ".", out, transfer.ExportOptions{})
//	m, err := transfer.Import(env, ".", in, transfer.ImportOptions{})
//
// Both open the store themselves, so no server may have it.
//
// # Format
//
// NDJSON in UTF-8: one Line each. The first is of kind export and has the version, 1. Then come the topics, the visible
// messages of each queue by their offsets, the waiting messages by their due times, and the groups with how far they have
// come. Numbers of the log (offsets) are strings. Bytes that are no UTF-8 stand in base64 in the field whose name ends in
// _base64. A reader ignores fields that it does not know, and refuses a version or a kind that it does not know.
//
//	{"kind":"export","version":1}
//	{"kind":"topic","topic":"orders","queues":4}
//	{"kind":"message","state":"visible","topic":"orders","queue":0,"offset":"17","key":"order-42","body":"…","stored_ms":…}
//	{"kind":"message","state":"scheduled","topic":"orders","queue":2,"due_ms":1798131600123,"due":"2026-12-24T17:00:00.123Z",…}
//	{"kind":"group","group":"billing"}
//	{"kind":"offset","group":"billing","topic":"orders","queue":0,"offset":"12","lag":5}
//
// # What an import keeps
//
// Bodies, properties, keys, tags, due times, the order within each queue, and how far each group has come: lag messages
// from the end. A message that waits for a level waits for its due time afterwards, and has no level; one whose due time has
// passed is visible at once; in a topic that is staged it waits for a plugin's verdict, as one does that was in the stage. What was
// settled above an offset comes to its group again. Ids, handles, offsets, idempotency keys and the time of storing are those of the new store.
package transfer
