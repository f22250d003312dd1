package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
)

// errUnfinished is what the hook after a handler gets if the handler has panicked or ended its goroutine.
var errUnfinished = errors.New("the handler did not return")

// work runs the handler of a job, and reports the end, also if the handler ends its goroutine.
func (r *run) work(h *held) {
	ended := end{kind: failed, text: "the handler has ended its goroutine"}
	defer func() {
		r.report(h, ended)
		h.cancel(context.Canceled)
		r.running.Add(-1)
		r.runs.Done()
		notify(r.freed)
	}()
	if limit := r.worker.settings.maxRun; limit > 0 {
		timer := time.AfterFunc(limit, func() { h.cancel(fmt.Errorf("%w (%v)", ErrMaxRun, limit)) })
		defer timer.Stop()
	}
	ended = perform(h.ctx, h.job, r.handlers[h.job.Queue], &r.worker.settings)
}

// report reports the end of a job, unless its lease is lost.
func (r *run) report(h *held, ended end) {
	r.ending.Lock()
	defer r.ending.Unlock()
	expires, has := r.leases.remove(h)
	if !has {
		return
	}
	ended.held, ended.expires = h, expires
	r.reports.add(ended)
}

// perform runs a handler. A panic is a failure.
func perform(ctx context.Context, job *Job, handler Handler, s *settings) (ended end) {
	defer func() {
		if panicked := recover(); panicked != nil {
			ended = end{kind: failed, text: fmt.Sprintf("the handler panicked: %v", panicked)}
			s.logger.Error(ended.text, "job", job.ID, "queue", job.Queue, "stack", string(debug.Stack()))
		}
	}()
	if handler == nil {
		return end{kind: failed, text: "the worker has no handler for the queue " + job.Queue}
	}
	if s.hooks.Started != nil {
		s.hooks.Started(ctx, job)
	}
	result, err := timed(ctx, job, handler, s)
	if err != nil {
		return endOf(ctx, err)
	}
	return end{kind: done, result: result}
}

// timed calls a handler, and the hook after it, also if the handler panics or ends its goroutine.
func timed(ctx context.Context, job *Job, handler Handler, s *settings) (result client.Payload, err error) {
	if s.hooks.Ended == nil {
		return handler(ctx, job)
	}
	begun := time.Now()
	err = errUnfinished
	defer func() { s.hooks.Ended(ctx, job, err, time.Since(begun)) }()
	result, err = handler(ctx, job)
	return result, err
}

// jobContext is the context of a handler, before it can be ended.
func jobContext(ctx context.Context, job *Job, s *settings) context.Context {
	ctx = context.WithValue(ctx, jobKey{}, job)
	parent := job.TraceParent
	if parent == "" {
		parent = job.Attributes["traceparent"]
	}
	if s.traceContext != nil && parent != "" {
		ctx = s.traceContext(ctx, parent)
	}
	return ctx
}

// End is what a worker would report for a job.
type End struct {
	// Done says that the handler has returned nil; Result is the result.
	Done   bool
	Result client.Payload
	// Error is the error that the server would store. Dead and RetryIn are as the handler has asked.
	Error   string
	Dead    bool
	RetryIn *time.Duration
	// Snoozed says that the job would come back after Delay without a failure.
	Snoozed bool
	Delay   time.Duration
}

// RunJob runs the handler of one job in this goroutine, with the middleware and the hooks of the worker, and reports
// nothing to a server. It is for tests.
func (w *Worker) RunJob(ctx context.Context, leased client.LeasedJob) End {
	job := &Job{LeasedJob: leased}
	ended := perform(jobContext(ctx, job, &w.settings), job, w.wrapped()[leased.Queue], &w.settings)
	return End{
		Done: ended.kind == done, Result: ended.result,
		Error: ended.text, Dead: ended.dead, RetryIn: ended.retryIn,
		Snoozed: ended.kind == released, Delay: ended.delay,
	}
}

// Queues returns the queues for which the worker has handlers.
func (w *Worker) Queues() []string { return append([]string(nil), w.queues...) }
