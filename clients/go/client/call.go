package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/tidegate/tidegate/clients/go/internal/wire"
)

// CallResult is the result of a job, or its id if the job has not ended yet.
type CallResult struct {
	// Job is the id of the job.
	Job string
	// Done is false if the job has not ended in time. It stays in its queue: ask for its result later, or cancel it.
	Done bool
	// Result is the result of the job; empty if the worker returned none.
	Result Payload
}

// Decode reads the result as JSON. No result is null.
func (r *CallResult) Decode(into any) error { return r.Result.Decode(into) }

// Call publishes a job, waits up to so long until a worker has done it, and returns its result. A job that is not done in
// time is no error: then Done of the result is false. Needs the scopes publish and read.
//
// A key makes the call safe to repeat by other processes: all calls with the key of a job get the same result. A dead job
// is 409 job_dead; a job that was cancelled meanwhile is 404 job_not_found. A wait of more than 20 s takes several
// requests.
func (q *Queue) Call(ctx context.Context, payload any, wait time.Duration, options ...PublishOption) (*CallResult, error) {
	job := newJobSpec(payload, options)
	if err := q.ready(ctx, job); err != nil {
		return nil, err
	}
	ctx, cancel := q.client.bounded(ctx, wait)
	defer cancel()
	deadline := time.Now().Add(wait)
	r := job.request(q.path("/jobs/call"))
	r.wait = max(min(wait, resultWaitMax), time.Millisecond)
	r.path = query(r.path, "wait", wire.DurationText(r.wait))
	answer, err := q.client.send(ctx, r)
	if err != nil {
		return nil, err
	}
	result, err := resultOf(answer)
	if err != nil || result.Done {
		return result, err
	}
	left := time.Until(deadline)
	if left <= 0 {
		return result, nil
	}
	return q.Job(result.Job).Result(ctx, left)
}

// bounded ends requests that wait for a result, and their repetitions, when the wait and the time limit of a request are
// over.
func (c *Client) bounded(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	limit := max(wait, 0) + c.timeLimit
	return context.WithTimeoutCause(ctx, limit, noAnswer{limit})
}

// resultOf reads the answer to a request that waits for the end of a job.
func resultOf(answer *reply) (*CallResult, error) {
	result := &CallResult{Job: answer.header.Get("Tidegate-Job-Id"), Done: true}
	switch {
	case answer.status == http.StatusAccepted:
		var unfinished struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(answer.body, &unfinished); err != nil {
			return nil, unreadable(answer.status, err)
		}
		return &CallResult{Job: unfinished.ID}, nil
	case answer.status != http.StatusNoContent:
		result.Result = Payload{ContentType: answer.header.Get("Content-Type"), Data: answer.body}
	}
	return result, nil
}
