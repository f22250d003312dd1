package client

import (
	"bytes"
	"context"
	"net/http"
	"time"
)

// Published is the answer to a publish.
type Published struct {
	ID    string `json:"id"`
	Queue string `json:"queue"`
	// Key is empty if the job has none.
	Key string `json:"key,omitempty"`
	// Outcome is created, exists, replaced, rerun or revived.
	Outcome string `json:"outcome"`
	State   State  `json:"state"`
	// RunAt is when the job is due; nil if it is done, or runs and will not run again.
	RunAt *time.Time `json:"run_at,omitempty"`
	// Durability is the durability that the job has.
	Durability string `json:"durability"`
	// Replayed says that this is the answer to an earlier publish with the same idempotency key.
	Replayed bool `json:"replayed,omitempty"`
}

// Publish stores a job. The payload is any value, which is sent as JSON; or a [Payload], or a []byte of the type
// application/octet-stream. It has up to 1 MiB.
//
// Publishes that meet are sent together: while a publish to the queue is in flight, further ones gather, and are sent as
// one request when it is answered. A publish that meets no other is sent at once.
//
// If the context ends, the error says with Applied whether the job may be stored.
func (q *Queue) Publish(ctx context.Context, payload any, options ...PublishOption) (*Published, error) {
	job := newJobSpec(payload, options)
	if err := q.ready(ctx, job); err != nil {
		return nil, err
	}
	return q.client.gatherers.publish(ctx, q, job)
}

// ready adds the span of the caller to the job, and returns what makes it impossible to send.
func (q *Queue) ready(ctx context.Context, job *jobSpec) error {
	if err := q.check(); err != nil {
		return err
	}
	if hook := q.client.traceParent; hook != nil {
		if parent := hook(ctx); parent != "" {
			job.setAttribute(traceParent, parent)
		}
	}
	if job.err != nil {
		return job.err
	}
	return nil
}

// publishAlone sends a job in a request of its own.
func (q *Queue) publishAlone(ctx context.Context, job *jobSpec, firstEnded func()) (*Published, error) {
	r := job.request(q.path("/jobs"))
	r.firstEnded = firstEnded
	published, err := fetch[Published](ctx, q.client, r)
	if err != nil {
		return nil, err
	}
	return &published, nil
}

// Job is a job of a batch.
type Job struct {
	// Payload is as of [Queue.Publish].
	Payload any
	Options []PublishOption
}

// BatchResult is the result of one job of a batch: either of both is nil.
type BatchResult struct {
	Published *Published
	Err       error
}

// PublishBatch stores up to 1,000 jobs in one request, each with its own result. The error is nil if the server has
// answered, whatever the results are.
func (q *Queue) PublishBatch(ctx context.Context, jobs []Job) ([]BatchResult, error) {
	return q.publishJobs(ctx, jobs, false)
}

// PublishAtomic stores up to 64 jobs, or none of them. In a queue with several lanes all must be in one lane: give jobs
// without a key the same [Group], or [Idempotent] with false, since their idempotency keys choose the lane otherwise.
func (q *Queue) PublishAtomic(ctx context.Context, jobs []Job) ([]Published, error) {
	results, err := q.publishJobs(ctx, jobs, true)
	if err != nil {
		return nil, err
	}
	published := make([]Published, len(results))
	for i, result := range results {
		if result.Err != nil {
			return nil, result.Err
		}
		published[i] = *result.Published
	}
	return published, nil
}

func (q *Queue) publishJobs(ctx context.Context, jobs []Job, atomic bool) ([]BatchResult, error) {
	items := make([][]byte, len(jobs))
	safe := true
	for i, job := range jobs {
		spec := newJobSpec(job.Payload, job.Options)
		if err := q.ready(ctx, spec); err != nil {
			return nil, err
		}
		items[i] = spec.batchItem()
		safe = safe && spec.safe()
	}
	return q.sendBatch(ctx, batchRequest(q.name, items, safe, atomic), len(items))
}

// sendBatch sends a batch of so many jobs.
func (q *Queue) sendBatch(ctx context.Context, r *request, jobs int) ([]BatchResult, error) {
	answer, err := fetch[batchAnswer](ctx, q.client, r)
	if err != nil {
		return nil, err
	}
	if len(answer.Results) != jobs {
		return nil, &Error{Class: ErrServer, Status: 200, Detail: "the answer has another number of results than jobs",
			Applied: AppliedUnknown}
	}
	results := make([]BatchResult, jobs)
	for i := range answer.Results {
		results[i] = answer.Results[i].result()
	}
	return results, nil
}

func batchRequest(queue string, items [][]byte, safe, atomic bool) *request {
	var body bytes.Buffer
	body.WriteByte('{')
	if atomic {
		body.WriteString(`"atomic":true,`)
	}
	body.WriteString(`"jobs":[`)
	body.Write(bytes.Join(items, []byte{','}))
	body.WriteString("]}")
	return &request{
		method: http.MethodPost,
		path:   "/queues/" + escape(queue) + "/jobs/batch",
		header: http.Header{"Content-Type": {contentTypeJSON}},
		body:   body.Bytes(),
		safe:   safe,
	}
}

type batchAnswer struct {
	Results []batchItemResult `json:"results"`
}

type batchItemResult struct {
	Published
	Problem *problem `json:"problem"`
}

func (r *batchItemResult) result() BatchResult {
	if r.Problem != nil {
		return BatchResult{Err: r.Problem.err(0)}
	}
	published := r.Published
	return BatchResult{Published: &published}
}
