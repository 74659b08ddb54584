// Package pluginhost lets WASM plugins decide about the messages of a broker: it is broker.Hooks made of package plugins.
//
//	h, err := pluginhost.Open(ctx, pluginhost.Options{Config: cfg})
//	b, err := broker.Open(env, dir, broker.Options{Hooks: h})
//	…
//	err = h.Reconfigure(ctx, next)  // after SIGHUP
//	err = b.Rehook(ctx)
//	…
//	err = b.Close()
//	err = h.Close()
//
// # What is asked when
//
// Each [[plugin]] of the configuration has patterns of topics, and hooks: publish before a message is stored, filter and
// transform when it is due or before a group reads it, deliver for requests, which package pluginhost only lends (Deliveries).
// Of several plugins the one with the lowest order is asked first, among equals by name; filter comes before transform. What
// one keeps, or has no opinion about, goes to the next; what one replaces goes to the next as it has become; any other answer
// is the last one.
//
// The messages of a call go through each plugin as one batch, which one generation of its file decides from the first message
// to the last. A message that a plugin leaves undecided, because it is quarantined, could not be loaded or blocks, ends the
// answer before it: what stands behind it waits too, so that the order stays.
//
// # Files
//
// A plugin whose file can't be loaded does not keep the server from starting. It is in the state failed: its messages wait, or
// pass with fail = "open", and the file is looked at again and again. A file that changes while its plugin runs takes over when
// it loads, and changes nothing when it does not. Host.Attention says all of that in sentences.
//
// # What a plugin sees of a message
//
// The record has as id the position of the message's first copy in the log, its topic, key and body, when it was stored and due
// (0 for no delay), the number of attempts before, and as headers its properties, and the tag as TAGS. A message that is being
// put has no id, no times and no attempts yet.
package pluginhost
