// Package worker runs handlers for the jobs of Tidegate queues.
//
//	w := worker.New(c, worker.Slots(64))
//	worker.Handle(w, "mails", func(ctx context.Context, mail Mail) error {
//		return send(ctx, mail)
//	})
//	err := w.Run(ctx)
//
// What a handler returns is the fate of the job:
//
//   - nil: the job is done.
//   - an error, or a panic: the attempt has failed, and is retried as the retry policy of the queue says; after the last
//     attempt the job is dead.
//   - [RetryIn]: the attempt has failed, and is retried after this time.
//   - [Dead]: the job is dead.
//   - [Snooze]: the job comes back after this time. This counts as no failure.
//
// A payload that cannot be read as the task of the queue makes the job dead.
//
// A job runs again if its worker dies, or if its ack does not reach the server before the lease ends. The id and the
// attempt of the [Job] together name a delivery, and the attempt only grows: store them with the effect of the job.
//
// The context of a handler ends when the handler should stop. By errors.Is, its context.Cause is then [ErrLeaseLost],
// [ErrCancelRequested], [ErrMaxRun] or [ErrStopping]. Go cannot end a goroutine: a handler that ignores its context keeps
// its slot.
package worker
