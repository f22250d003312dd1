package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/tidegate/tidegate/clients/go/internal/wire"
)

// Policy is the policy of a queue. Fields that are nil have no limit.
type Policy struct {
	// Lease is the length of a lease, if neither the reserve call nor the job says.
	Lease time.Duration
	Retry RetryPolicy
	// Retain is how long a finished job is kept with its key and its result.
	Retain time.Duration
	// Paused queues deliver no jobs, until PausedUntil if it is set.
	Paused      bool
	PausedUntil *time.Time
	// Closed queues refuse publishes.
	Closed bool
	// MaxJobs is the most jobs that are not done.
	MaxJobs *int64
	// MaxRunning is the most jobs that are leased at a time, and GroupMaxRunning of each group.
	MaxRunning      *int64
	GroupMaxRunning *int64
	Rate            *Rate
	// Limit is the name of a limit that the queue shares with others; "" for none.
	Limit string
	// KeepDead is how long dead jobs are kept; nil is for ever.
	KeepDead *time.Duration
}

// Rate is how many jobs are delivered in a time.
type Rate struct {
	Jobs int64
	// Per is 1 s by default.
	Per time.Duration
}

// MarshalJSON writes the rate as a request has it.
func (r Rate) MarshalJSON() ([]byte, error) {
	fields := map[string]any{"jobs": r.Jobs}
	if r.Per != 0 {
		fields["per"] = wire.Duration(r.Per)
	}
	return json.Marshal(fields)
}

// RetryPolicy says when failed jobs are retried. Set Delays, or Every, or First with Factor and Max. Fields that are zero are
// left out of requests.
type RetryPolicy struct {
	// Delays are 1 to 16 delays; the last one repeats.
	Delays []time.Duration
	// Every is the same delay each time.
	Every time.Duration
	// First is the first delay, which grows by Factor up to Max.
	First  time.Duration
	Factor float64
	Max    time.Duration
	// Jitter makes each delay longer at random, by up to this part; nil is as the policy says.
	Jitter *float64
	// MaxAttempts is after how many failures a job is dead.
	MaxAttempts int
}

// MarshalJSON writes the retry as a request has it.
func (r RetryPolicy) MarshalJSON() ([]byte, error) {
	fields := make(map[string]any)
	if r.Delays != nil {
		delays := make([]wire.Duration, len(r.Delays))
		for i, delay := range r.Delays {
			delays[i] = wire.Duration(delay)
		}
		fields["delays"] = delays
	}
	for name, delay := range map[string]time.Duration{"every": r.Every, "first": r.First, "max": r.Max} {
		if delay != 0 {
			fields[name] = wire.Duration(delay)
		}
	}
	if r.Factor != 0 {
		fields["factor"] = r.Factor
	}
	if r.Jitter != nil {
		fields["jitter"] = *r.Jitter
	}
	if r.MaxAttempts != 0 {
		fields["max_attempts"] = r.MaxAttempts
	}
	return json.Marshal(fields)
}

// UnmarshalJSON reads the retry as a request has it.
func (r *RetryPolicy) UnmarshalJSON(text []byte) error {
	var view struct {
		Delays      []wire.Duration `json:"delays"`
		Every       wire.Duration   `json:"every"`
		First       wire.Duration   `json:"first"`
		Factor      float64         `json:"factor"`
		Max         wire.Duration   `json:"max"`
		Jitter      *float64        `json:"jitter"`
		MaxAttempts int             `json:"max_attempts"`
	}
	if err := json.Unmarshal(text, &view); err != nil {
		return err
	}
	*r = RetryPolicy{
		Every: time.Duration(view.Every), First: time.Duration(view.First), Max: time.Duration(view.Max),
		Factor: view.Factor, Jitter: view.Jitter, MaxAttempts: view.MaxAttempts,
	}
	for _, delay := range view.Delays {
		r.Delays = append(r.Delays, time.Duration(delay))
	}
	return nil
}

// PolicyChange is a change of a policy. Fields that are nil stay as they are.
type PolicyChange struct {
	Lease           *time.Duration
	Retry           *RetryPolicy
	Retain          *time.Duration
	Paused          *bool
	PausedUntil     *time.Time
	Closed          *bool
	MaxJobs         *int64
	MaxRunning      *int64
	GroupMaxRunning *int64
	Rate            *Rate
	Limit           *string
	KeepDead        *time.Duration
	// Fields are further fields, by the names of the server. The value nil sets a field to its default, such as
	// {"rate": nil}.
	Fields map[string]any
}

// MarshalJSON writes the change as the server reads it.
func (p PolicyChange) MarshalJSON() ([]byte, error) {
	fields := make(map[string]any)
	add(fields, "lease", optional(p.Lease))
	add(fields, "retry", p.Retry)
	add(fields, "retain", optional(p.Retain))
	add(fields, "paused", p.Paused)
	add(fields, "paused_until", p.PausedUntil)
	add(fields, "closed", p.Closed)
	add(fields, "max_jobs", p.MaxJobs)
	add(fields, "max_running", p.MaxRunning)
	if p.GroupMaxRunning != nil {
		fields["groups"] = map[string]int64{"max_running": *p.GroupMaxRunning}
	}
	add(fields, "rate", p.Rate)
	add(fields, "limit", p.Limit)
	add(fields, "keep_dead", optional(p.KeepDead))
	for name, value := range p.Fields {
		fields[name] = value
	}
	return marshal(fields)
}

// add adds a field that is set.
func add[T any](fields map[string]any, name string, value *T) {
	if value != nil {
		fields[name] = value
	}
}

// Policy returns the policy of the queue. Needs the scope read.
func (q *Queue) Policy(ctx context.Context) (*Policy, error) {
	return queueCall[Policy](ctx, q, get(q.path("/policy")))
}

// ChangePolicy changes fields of the policy of the queue, and returns the policy. The change is in effect everywhere
// within a second. Needs the scope admin.
func (q *Queue) ChangePolicy(ctx context.Context, change PolicyChange) (*Policy, error) {
	return queueJSON[Policy](ctx, q, http.MethodPatch, "/policy", change, true)
}

// ReplacePolicy sets the fields of the change, and all others to their defaults. Needs the scope admin.
func (q *Queue) ReplacePolicy(ctx context.Context, change PolicyChange) (*Policy, error) {
	return queueJSON[Policy](ctx, q, http.MethodPut, "/policy", change, true)
}
