package client

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/tidegate/tidegate/clients/go/internal/wire"
)

// resultWaitMax is the longest wait of one request. Proxies close connections that are silent for longer.
const resultWaitMax = 20 * time.Second

// JobRef is a job of a queue, by its id or its key.
type JobRef struct {
	queue *Queue
	id    string
	key   string
}

// Job returns the job with this id.
func (q *Queue) Job(id string) *JobRef { return &JobRef{queue: q, id: id} }

// JobWithKey returns the job with this key.
func (q *Queue) JobWithKey(key string) *JobRef { return &JobRef{queue: q, key: key} }

// Show returns all about the job, except its payload. A job by its id needs the scope read.
func (j *JobRef) Show(ctx context.Context) (*JobDetails, error) {
	return jobCall[JobDetails](ctx, j, get(j.path("")))
}

// Explain returns why the job is not delivered now, or not any more. Needs the scope read.
func (j *JobRef) Explain(ctx context.Context) (*Explanation, error) {
	return jobCall[Explanation](ctx, j, get(j.path("/explain")))
}

// Change changes when a job that waits is due, its StartWithin or its priority. Options that are not given stay.
func (j *JobRef) Change(ctx context.Context, options ...ChangeOption) (*Changed, error) {
	spec := changeOf(options)
	if spec.err != nil {
		return nil, spec.err
	}
	r, err := jsonRequest(http.MethodPatch, j.path(""), spec.fields(), true)
	if err != nil {
		return nil, err
	}
	return jobCall[Changed](ctx, j, r)
}

// Promote makes a delayed job ready now.
func (j *JobRef) Promote(ctx context.Context) (*Promoted, error) {
	return jobCall[Promoted](ctx, j, &request{method: http.MethodPost, path: j.path("/promote"), safe: true})
}

// CancelOption is an option of [JobRef.Cancel].
type CancelOption func(path string) string

// Running sets the rule for a job that a worker holds. Default: [Refuse].
func Running(rule IfRunning) CancelOption {
	return func(path string) string { return query(path, "running", string(rule)) }
}

// Cancel deletes the job. If a worker holds it the error is 409 job_running, unless [Running] says something else. A job
// that is not there is 404 job_not_found.
func (j *JobRef) Cancel(ctx context.Context, options ...CancelOption) (*Cancelled, error) {
	path := j.path("")
	for _, add := range options {
		path = add(path)
	}
	return jobCall[Cancelled](ctx, j, &request{method: http.MethodDelete, path: path, safe: true})
}

// Payload returns the payload of the job. Needs the scope read.
func (j *JobRef) Payload(ctx context.Context) (Payload, error) {
	if err := j.check(); err != nil {
		return Payload{}, err
	}
	answer, err := j.queue.client.send(ctx, get(j.path("/payload")))
	if err != nil {
		return Payload{}, err
	}
	return Payload{ContentType: answer.header.Get("Content-Type"), Data: answer.body}, nil
}

// Result waits up to so long for the job to be done, and returns its result; 0 does not wait. A job that is not done in
// time is no error: then Done of the result is false. Needs the scope read.
//
// A dead job is 409 job_dead. A job that was cancelled, or is kept no longer, is 404 job_not_found.
func (j *JobRef) Result(ctx context.Context, wait time.Duration) (*CallResult, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	ctx, cancel := j.queue.client.bounded(ctx, wait)
	defer cancel()
	deadline := time.Now().Add(wait)
	for {
		part := min(max(time.Until(deadline), 0), resultWaitMax)
		result, err := j.resultOnce(ctx, part)
		if err != nil || result.Done || time.Until(deadline) <= 0 {
			return result, err
		}
	}
}

func (j *JobRef) resultOnce(ctx context.Context, wait time.Duration) (*CallResult, error) {
	r := get(j.path("/result"))
	if wait > 0 {
		r.path, r.wait = query(r.path, "wait", wire.DurationText(wait)), wait
	}
	answer, err := j.queue.client.send(ctx, r)
	if err != nil {
		return nil, err
	}
	return resultOf(answer)
}

func (j *JobRef) check() error {
	if err := j.queue.check(); err != nil {
		return err
	}
	if j.id == "" && j.key == "" {
		return invalid("job", "the id or the key of the job is empty")
	}
	return nil
}

// path is the path of the job with this end. A key with a slash is a parameter, since proxies treat %2F in paths in
// different ways.
func (j *JobRef) path(rest string) string {
	jobs := j.queue.path("/jobs/")
	switch {
	case j.key == "":
		return jobs + escape(j.id) + rest
	case strings.Contains(j.key, "/"):
		return query(jobs+"-"+rest, "key", j.key)
	default:
		return jobs + "key:" + escape(j.key) + rest
	}
}

func jobCall[T any](ctx context.Context, j *JobRef, r *request) (*T, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	return queueCall[T](ctx, j.queue, r)
}

// Jobs lists the jobs of the queue that match the filter. Needs the scope read.
//
// A job that keeps its state, its due time and its priority while the list is read is in it, perhaps twice. Others may be
// missing.
func (q *Queue) Jobs(filter JobFilter) *List[JobDetails] {
	return newList[JobDetails](q.client, query(q.path("/jobs"), filter.pairs()...), q.check())
}
