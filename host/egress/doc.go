// Package egress makes HTTP requests for plugins, to where they may go and no further.
//
// A plugin says what to send, and what it says is not trusted: its URL may come from a message that a stranger wrote. A
// Client has an allow-list of hosts, and each request passes these gates:
//
//  1. The URL: absolute, https (http only where the list says so), no user, no fragment, a host in lower-case ASCII that is a
//     name or an address in its one canonical form, and that a rule of the list names with its port. What different programs
//     read in different ways (numbers as hosts, backslashes, dots at the end, escapes in the host) is refused, not repaired.
//  2. The method, the headers and the size: nothing that changes how the request is framed or where it goes.
//  3. The address: checked when the connection is made, on the address that it is made to. A name that resolves to something
//     else a moment later gains nothing by it.
//  4. TLS: always verified.
//
// A redirect is a response like any other: it is not followed. No proxy, cookie, password file or other environment of the
// process takes part. Responses are bounded in time and size, and bodies are not decompressed.
//
// What the gates 1 and 2 refuse is an error of kind ErrRefused: nothing was sent, and asking again changes nothing. All else
// that can happen is an *Error whose Reason is one of a few fixed sentences, so that a plugin learns what it needs and nothing
// about the network that it is in.
//
// Secret signs requests as Standard Webhooks has it; RetryAfter reads the header of that name.
package egress
