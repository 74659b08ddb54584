// Package bulk changes many waiting messages at once: it cancels, moves or fires all that a filter means.
//
//	m := bulk.New(b)
//	defer m.Close()
//	p, err := m.Preview(ctx, bulk.Spec{Action: bulk.Cancel, Filter: bulk.Filter{Topic: "promo"}})
//	job, err := m.Start(p.Confirm) // p.Matched messages
//	job, ok := m.Job(job.ID)       // how far it is
//
// A preview counts exactly what matches at the moment, and binds the change to those messages: what is put or moved later
// is not touched, and a message that is moved is not met again at its new time. What fires, is cancelled or is moved
// between preview and change is passed over and counted. Tags and keys are compared in full, not by their hashes.
//
// Previews and jobs are in memory: a restart forgets them. What a job has done until then stays done.
package bulk
