package worker

import (
	"context"

	"github.com/tidegate/tidegate/clients/go/client"
)

// Handler runs one job. The payload that it returns is the result of the job; the empty payload is no result.
type Handler func(ctx context.Context, job *Job) (client.Payload, error)

// Middleware wraps a handler.
type Middleware func(next Handler) Handler

// Job is a job that a worker runs.
type Job struct{ client.LeasedJob }

type jobKey struct{}

// JobOf returns the job whose handler has this context; nil if it is of no handler.
func JobOf(ctx context.Context) *Job {
	job, _ := ctx.Value(jobKey{}).(*Job)
	return job
}

// Handle sets the handler of a queue. The payload is read as JSON; a payload that is not a T makes the job dead. Numbers
// in fields of type any are json.Number.
func Handle[T any](w *Worker, queue string, handler func(ctx context.Context, task T) error) {
	w.HandleJob(queue, func(ctx context.Context, job *Job) (client.Payload, error) {
		task, err := taskOf[T](job)
		if err != nil {
			return client.Payload{}, err
		}
		return client.Payload{}, handler(ctx, task)
	})
}

// HandleResult sets the handler of a queue whose jobs have results. The result is sent as JSON, and kept as long as the
// job is retained. A result that cannot be written as JSON makes the job dead, since its work is done.
func HandleResult[T, R any](w *Worker, queue string, handler func(ctx context.Context, task T) (R, error)) {
	w.HandleJob(queue, func(ctx context.Context, job *Job) (client.Payload, error) {
		task, err := taskOf[T](job)
		if err != nil {
			return client.Payload{}, err
		}
		result, err := handler(ctx, task)
		if err != nil {
			return client.Payload{}, err
		}
		payload, err := client.JSON(result)
		if err != nil {
			return client.Payload{}, Dead(err)
		}
		return payload, nil
	})
}

func taskOf[T any](job *Job) (T, error) {
	var task T
	if err := job.Payload.Decode(&task); err != nil {
		return task, Dead(&taskError{job.Queue, err})
	}
	return task, nil
}

// taskError says that a payload is not a task of its queue.
type taskError struct {
	queue string
	cause error
}

func (e *taskError) Error() string {
	return "the payload is not a task of the queue " + e.queue + ": " + e.cause.Error()
}

func (e *taskError) Unwrap() error { return e.cause }
