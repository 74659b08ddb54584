package abi

// Version is the major version of the ABI. It is part of the names below.
const Version = 1

// Names that tie a module to this ABI.
const (
	Marker   = "tw_abi_1"    // export ()->() that is never called: a module that has it speaks version 1
	Imports  = "tw_v1"       // module of the host's functions
	Manifest = "tw.manifest" // custom section with a JSON object, see ABI.md

	Memory     = "memory"
	Initialize = "_initialize"
	Alloc      = "tw_alloc"
	Configure  = "tw_configure"
)

// Hook is a place in the life of a message where a plugin is asked. The first valid one is 1.
type Hook uint8

// The hooks. A module implements a hook by exporting the function of Hook.Export.
const (
	Publish   Hook = 1 + iota // before a message is stored
	Filter                    // at its due time, or when a group is about to consume it
	Transform                 // like Filter, and may replace the message
	Prepare                   // delivery: returns the request to send
	Result                    // delivery: judges the response

	// Hooks is the number of hooks plus one: the size of a table indexed by Hook.
	Hooks
)

var hookNames = [Hooks]string{"", "publish", "filter", "transform", "prepare", "result"}

// String is the name of the hook as in configuration files: publish, filter, transform, prepare, result.
func (h Hook) String() string {
	if h == 0 || h >= Hooks {
		return "unknown"
	}
	return hookNames[h]
}

// Export is the name of the function that implements the hook, of type (i32) -> (i32).
func (h Hook) Export() string { return "tw_" + h.String() }

// ParseHook is the inverse of String; false when there is no such hook.
func ParseHook(name string) (Hook, bool) {
	for h := Publish; h < Hooks; h++ {
		if hookNames[h] == name {
			return h, true
		}
	}
	return 0, false
}

// Status is what a hook returns for the batch as a whole.
type Status int32

// The states of a batch. Everything but StatusOK fails the record under the cursor.
const (
	StatusOK            Status = 0
	StatusError         Status = -1 // the message is the first err_len bytes at out_ptr
	StatusBadBatch      Status = -2 // magic, hook or layout that the guest does not know
	StatusNotConfigured Status = -3
	StatusNoMemory      Status = -4
)

// What host functions return below zero.
const (
	Invalid     int32 = -1 // a pointer, length or argument that is not acceptable
	NotAllowed  int32 = -2 // not during this call
	TooLarge    int32 = -3 // a path or pattern above its limit
	NothingLeft int32 = -4 // the fuel does not pay for the work; the guest is about to stop
)

// Limits of what guests hand to host functions.
const (
	MaxPath = 256  // bytes of a path, header name or pattern
	MaxLog  = 1024 // bytes of a line; longer ones are cut
)

// Field names a part of a record for Match.
type Field int32

// The fields.
const (
	FieldTopic Field = 0
	FieldKey   Field = 1
	FieldBody  Field = 2
)
