// Package server runs Tidewheel as a process: it opens a data directory, listens, serves, takes over a changed
// configuration, and ends in order. It is what the verbs serve and dev have in common, and what a program does that
// wants the whole server inside.
//
// # The life of a server
//
//  1. Listen looks at the data directory, changes nothing in it, and opens the addresses. From here on /readyz answers 503
//     and how far the start is.
//  2. Open recovers the store, makes the topics of the configuration, and lets requests in.
//  3. Reload, as often as wanted, takes over what can change while it runs, and says what cannot.
//  4. Serve returns when the context ends: requests that are on their way get StopTime, waiting readers are sent away,
//     what was taken is made durable and answered. All of it takes less than 5 s, however many messages wait.
//
// # Refusals
//
// A directory that cannot be used is an error that says what is wrong with it and what to do, and nothing in it is
// changed: another process has it, it holds something else or files of a later version, it belongs to another user, it
// cannot be written, it is full.
//
// # Service managers
//
// With NOTIFY_SOCKET set, as systemd does for Type=notify, the server tells that it is ready, reloading and stopping, and
// while it recovers it asks for more time.
package server
