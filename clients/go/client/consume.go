package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"github.com/tidegate/tidegate/clients/go/internal/wire"
)

// QueueWeight is a queue of a reserve.
type QueueWeight struct {
	Queue string
	// Weight is how often the queue is looked into first, compared with the others: 1 to 100; 0 for none.
	Weight int
}

// MarshalJSON writes the queue as the server reads it.
func (w QueueWeight) MarshalJSON() ([]byte, error) {
	if w.Weight == 0 {
		return json.Marshal(w.Queue)
	}
	return json.Marshal(map[string]any{"name": w.Queue, "weight": w.Weight})
}

// ReserveRequest is a request for jobs. Workers of the package worker send it for you.
type ReserveRequest struct {
	// Queues are 1 to 16 queues.
	Queues []QueueWeight
	// Order is weighted or strict; by default weighted if a queue has a weight, else strict.
	Order string
	// MaxJobs is the most jobs of the answer: 1 to 256; 0 is 1.
	MaxJobs int
	// Wait is how long the server waits for a job; 0 does not wait.
	Wait time.Duration
	// Lease is how long the jobs are held: 100 ms to 24 h; 0 is as the jobs or the policies of their queues say.
	Lease time.Duration
	// Worker is the name with which the worker is listed together with the jobs that it holds.
	Worker string
	// Acks and Fails are carried out before jobs are reserved.
	Acks  []Ack
	Fails []Fail
}

type reserveBody struct {
	Queues  []QueueWeight `json:"queues"`
	Order   string        `json:"order,omitempty"`
	MaxJobs int           `json:"max_jobs,omitempty"`
	Wait    wire.Duration `json:"wait,omitempty"`
	Lease   wire.Duration `json:"lease,omitempty"`
	Worker  string        `json:"worker,omitempty"`
	Settle  *settleBody   `json:"settle,omitempty"`
}

type settleBody struct {
	Acks  []Ack  `json:"ack,omitempty"`
	Fails []Fail `json:"fail,omitempty"`
}

// LeasedJob is a job that the server has leased to the caller.
type LeasedJob struct {
	ID    string
	Queue string
	// Lease names this delivery in [Client.Ack] and the other calls.
	Lease string
	// LeaseUntil is when the lease ends, by the clock of the server.
	LeaseUntil time.Time
	// Attempt is the number of this attempt, from 1. It only grows: together with the id it is a fencing token.
	Attempt int
	// Failures is how many attempts have failed, Losses how many have lost their worker.
	Failures, Losses int
	// RunAt is when the job was due, CreatedAt when it was published.
	RunAt, CreatedAt time.Time
	// Key and Group are empty if the job has none.
	Key, Group string
	Attributes map[string]string
	Payload    Payload
	// TraceParent is the span of this delivery, if the server traces it, as in the header traceparent.
	TraceParent string
}

type leasedView struct {
	ID            string            `json:"id"`
	Queue         string            `json:"queue"`
	Lease         string            `json:"lease"`
	LeaseUntil    time.Time         `json:"lease_until"`
	Attempt       int               `json:"attempt"`
	Failures      int               `json:"failures"`
	Losses        int               `json:"losses"`
	RunAt         time.Time         `json:"run_at"`
	CreatedAt     time.Time         `json:"created_at"`
	Key           string            `json:"key"`
	Group         string            `json:"group"`
	Attributes    map[string]string `json:"attributes"`
	ContentType   string            `json:"content_type"`
	Payload       json.RawMessage   `json:"payload"`
	PayloadBase64 []byte            `json:"payload_base64"`
	TraceParent   string            `json:"traceparent"`
}

// UnmarshalJSON reads the job as the server writes it.
func (j *LeasedJob) UnmarshalJSON(text []byte) error {
	var view leasedView
	if err := json.Unmarshal(text, &view); err != nil {
		return err
	}
	*j = view.job()
	return nil
}

func (v *leasedView) job() LeasedJob {
	payload := Payload{ContentType: v.ContentType, Data: v.PayloadBase64}
	if v.Payload != nil {
		payload.Data = v.Payload
	}
	return LeasedJob{
		ID: v.ID, Queue: v.Queue, Lease: v.Lease, LeaseUntil: v.LeaseUntil,
		Attempt: v.Attempt, Failures: v.Failures, Losses: v.Losses,
		RunAt: v.RunAt, CreatedAt: v.CreatedAt, Key: v.Key, Group: v.Group,
		Attributes: v.Attributes, Payload: payload, TraceParent: v.TraceParent,
	}
}

// Reserved is the answer to a reserve.
type Reserved struct {
	// Now is the clock of the server.
	Now  time.Time
	Jobs []LeasedJob
	// Acked and Failed are the outcomes of the acks and failures that the request had, in order.
	Acked, Failed []Outcome
}

type reserveAnswer struct {
	Now     time.Time    `json:"now"`
	Jobs    []leasedView `json:"jobs"`
	Settled struct {
		Acked  []Outcome `json:"ack"`
		Failed []Outcome `json:"fail"`
	} `json:"settled"`
}

// Outcome is the outcome of one lease.
type Outcome struct {
	// Outcome is done, retry, dead, extended, released, cancelled, rerun, lost or gone. Lost and gone say that the lease
	// has no effect any more.
	Outcome string `json:"outcome"`
	// RunAt is when a job that is retried is due.
	RunAt *time.Time `json:"run_at,omitempty"`
	// LeaseUntil is when an extended lease ends.
	LeaseUntil *time.Time `json:"lease_until,omitempty"`
	// CancelRequested says that the holder of an extended lease should stop.
	CancelRequested bool `json:"cancel_requested,omitempty"`
	// ResultDropped says that the server had no memory for the result of a job that is done.
	ResultDropped bool `json:"result_dropped,omitempty"`
}

// Ack says that a job is done.
type Ack struct {
	Lease string
	// Result is kept as long as the job. The empty payload is no result.
	Result Payload
}

// MarshalJSON writes the ack as the server reads it.
func (a Ack) MarshalJSON() ([]byte, error) {
	if a.Result.Empty() {
		return marshal(a.Lease)
	}
	item := ackItem{Lease: a.Lease}
	if a.Result.encoded {
		item.Result = a.Result.Data
	} else {
		text := base64.StdEncoding.EncodeToString(a.Result.Data)
		item.ResultBase64, item.ContentType = &text, a.Result.ContentType
	}
	return marshal(item)
}

type ackItem struct {
	Lease        string          `json:"lease"`
	Result       json.RawMessage `json:"result,omitempty"`
	ResultBase64 *string         `json:"result_base64,omitempty"`
	ContentType  string          `json:"content_type,omitempty"`
}

// Fail says that an attempt has failed.
type Fail struct {
	Lease string `json:"lease"`
	// Error is for people; the server keeps its first 1,024 bytes.
	Error string `json:"error"`
	// RetryIn is the delay before the next attempt; nil is as the retry policy says. Excludes Dead.
	RetryIn *time.Duration `json:"-"`
	// Dead says that no further attempt can succeed.
	Dead bool `json:"dead,omitempty"`
}

// MarshalJSON writes the failure as the server reads it.
func (f Fail) MarshalJSON() ([]byte, error) {
	type plain Fail
	return marshal(struct {
		plain
		RetryIn *wire.Duration `json:"retry_in,omitempty"`
	}{plain(f), optional(f.RetryIn)})
}

// Reserve reserves ready jobs. The answer has no jobs if none came in time. If an answer is lost, its jobs are ready again
// when their leases end.
func (c *Client) Reserve(ctx context.Context, reserve ReserveRequest) (*Reserved, error) {
	body := reserveBody{
		Queues: reserve.Queues, Order: reserve.Order, MaxJobs: reserve.MaxJobs, Worker: reserve.Worker,
		Wait: wire.Duration(reserve.Wait), Lease: wire.Duration(reserve.Lease),
	}
	if len(reserve.Acks)+len(reserve.Fails) > 0 {
		body.Settle = &settleBody{Acks: reserve.Acks, Fails: reserve.Fails}
	}
	r, err := jsonRequest(http.MethodPost, "/reserve", body, true)
	if err != nil {
		return nil, err
	}
	r.wait = reserve.Wait
	answer, err := fetch[reserveAnswer](ctx, c, r)
	if err != nil {
		return nil, err
	}
	jobs := make([]LeasedJob, len(answer.Jobs))
	for i := range answer.Jobs {
		jobs[i] = answer.Jobs[i].job()
	}
	return &Reserved{Now: answer.Now, Jobs: jobs, Acked: answer.Settled.Acked, Failed: answer.Settled.Failed}, nil
}

// Ack says that up to 1,000 jobs are done. It returns an outcome for each, in order.
func (c *Client) Ack(ctx context.Context, acks []Ack) ([]Outcome, error) {
	return c.settle(ctx, "/ack", map[string]any{"leases": acks}, len(acks))
}

// Fail says that up to 1,000 attempts have failed. It returns an outcome for each, in order.
func (c *Client) Fail(ctx context.Context, fails []Fail) ([]Outcome, error) {
	return c.settle(ctx, "/fail", map[string]any{"leases": fails}, len(fails))
}

// Touch extends up to 1,000 leases by this time from now on; 0 is as the jobs or the policies of their queues say. It
// returns an outcome for each, in order.
func (c *Client) Touch(ctx context.Context, leases []string, lease time.Duration) ([]Outcome, error) {
	body := map[string]any{"leases": leases}
	if lease != 0 {
		body["lease"] = wire.Duration(lease)
	}
	return c.settle(ctx, "/touch", body, len(leases))
}

// Release gives up to 1,000 jobs back, which are due again after the delay. This counts as no failure. It returns an
// outcome for each, in order.
func (c *Client) Release(ctx context.Context, leases []string, delay time.Duration) ([]Outcome, error) {
	body := map[string]any{"leases": leases}
	if delay != 0 {
		body["delay"] = wire.Duration(delay)
	}
	return c.settle(ctx, "/release", body, len(leases))
}

// settle sends a request about leases. A lease names one delivery, so a repetition changes nothing more.
func (c *Client) settle(ctx context.Context, path string, body any, leases int) ([]Outcome, error) {
	answer, err := fetchJSON[struct {
		Results []Outcome `json:"results"`
	}](ctx, c, http.MethodPost, path, body, true)
	if err != nil {
		return nil, err
	}
	if len(answer.Results) != leases {
		return nil, &Error{Class: ErrServer, Status: 200, Detail: "the answer has another number of outcomes than leases",
			Applied: AppliedUnknown}
	}
	return answer.Results, nil
}
