package client

import (
	"context"
	"net/http"
	"time"
)

// Queue is a queue of the namespace. A queue exists by being used.
type Queue struct {
	client *Client
	name   string
}

// Queue returns a queue. Its name has 1 to 255 bytes of letters, digits, - and _; another name is an error of the class
// [ErrInvalidRequest] of each call.
func (c *Client) Queue(name string) *Queue { return &Queue{client: c, name: name} }

// Name returns the name of the queue.
func (q *Queue) Name() string { return q.name }

func (q *Queue) check() error {
	if !isName(q.name) {
		return invalid("queue", "the name of a queue is 1 to 255 bytes of letters, digits, - and _")
	}
	return nil
}

func (q *Queue) path(rest string) string { return "/queues/" + escape(q.name) + rest }

// Counts is how many jobs of a queue are in each state.
type Counts struct {
	Delayed int64 `json:"delayed"`
	Ready   int64 `json:"ready"`
	Leased  int64 `json:"leased"`
	Dead    int64 `json:"dead"`
	Done    int64 `json:"done"`
}

// QueueView is a queue with its counts.
type QueueView struct {
	Queue       string     `json:"queue"`
	Jobs        Counts     `json:"jobs"`
	Paused      bool       `json:"paused"`
	PausedUntil *time.Time `json:"paused_until,omitempty"`
	Closed      bool       `json:"closed"`
}

// Counts returns how many jobs the queue has. A queue that was never used has none. Needs the scope read.
func (q *Queue) Counts(ctx context.Context) (*QueueView, error) {
	return queueCall[QueueView](ctx, q, get(q.path("")))
}

// Queues lists the queues of the namespace. Needs the scope read.
func (c *Client) Queues() *List[QueueView] { return newList[QueueView](c, "/queues", nil) }

// Purge deletes all jobs that are [Ready], or all that are [Dead], and returns how many. Needs the scope admin. It is
// repeated only if it was surely not applied.
func (q *Queue) Purge(ctx context.Context, state State) (int64, error) {
	body := map[string]State{"state": state}
	answer, err := queueJSON[struct {
		Deleted int64 `json:"deleted"`
	}](ctx, q, http.MethodPost, "/purge", body, false)
	if err != nil {
		return 0, err
	}
	return answer.Deleted, nil
}

// Respawn says which dead jobs come back, and how fast.
type Respawn struct {
	// Limit is the most jobs, oldest first; 0 for all.
	Limit int64 `json:"limit,omitempty"`
	// RatePerSecond spaces the jobs evenly; 0 makes all ready at once.
	RatePerSecond int `json:"rate_per_second,omitempty"`
}

// Respawn brings dead jobs back, and returns how many. Needs the scope admin. It is repeated only if it was surely not
// applied.
func (q *Queue) Respawn(ctx context.Context, which Respawn) (int64, error) {
	answer, err := queueJSON[struct {
		Respawned int64 `json:"respawned"`
	}](ctx, q, http.MethodPost, "/respawn", which, false)
	if err != nil {
		return 0, err
	}
	return answer.Respawned, nil
}

// Delete removes an empty queue with its policy. A queue with jobs is 409 queue_not_empty. Needs the scope admin.
func (q *Queue) Delete(ctx context.Context) error {
	r := &request{method: http.MethodDelete, path: q.path(""), safe: true}
	_, err := queueCall[struct{}](ctx, q, r)
	return err
}

// queueCall sends a request about a queue.
func queueCall[T any](ctx context.Context, q *Queue, r *request) (*T, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	value, err := fetch[T](ctx, q.client, r)
	if err != nil {
		return nil, err
	}
	return &value, nil
}

func queueJSON[T any](ctx context.Context, q *Queue, method, rest string, body any, safe bool) (*T, error) {
	r, err := jsonRequest(method, q.path(rest), body, safe)
	if err != nil {
		return nil, err
	}
	return queueCall[T](ctx, q, r)
}
