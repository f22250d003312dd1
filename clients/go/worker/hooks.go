package worker

import (
	"context"
	"time"
)

// Hooks are functions that the worker calls, from several goroutines at the same time. They should return soon. Those that
// are nil are not called.
type Hooks struct {
	// Reserved is called for each answer with jobs.
	Reserved func(jobs int)
	// Started is called before a handler.
	Started func(ctx context.Context, job *Job)
	// Ended is called after a handler, with the error that it returned and how long it ran. After a panic the error only
	// says that the handler has not returned.
	Ended func(ctx context.Context, job *Job, err error, took time.Duration)
	// Reported is called when the server has the end of a job. The outcome is done, retry, dead, released, cancelled,
	// rerun, lost or gone.
	Reported func(job *Job, outcome string)
	// Failed is called when a request of the worker has failed: reserve, ack, fail, release or touch. All are repeated,
	// except for a reserve that is answered 401 or 403, and reports whose leases have ended.
	Failed func(request string, err error)
}

func (h *Hooks) reserved(jobs int) {
	if h.Reserved != nil {
		h.Reserved(jobs)
	}
}

func (h *Hooks) reported(job *Job, outcome string) {
	if h.Reported != nil {
		h.Reported(job, outcome)
	}
}

func (h *Hooks) failed(request string, err error) {
	if h.Failed != nil {
		h.Failed(request, err)
	}
}
