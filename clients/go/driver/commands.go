package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidegate/tidegate/clients/go/client"
)

// carryOut does a command, and returns the answer.
func (d *driver) carryOut(ctx context.Context, c *command) (any, error) {
	switch c.Do {
	case "publish", "publish_batch", "publish_many", "call":
		return d.publish(ctx, c)
	case "reserve", "ack", "touch", "release", "fail":
		return d.consume(ctx, c)
	case "show", "explain", "payload", "result", "promote", "change", "cancel":
		return d.job(ctx, c)
	case "list_jobs", "act", "queue", "queues", "policy", "delete_queue", "set_policy", "purge", "respawn":
		return d.queue(ctx, c)
	case "set_schedule", "schedule", "schedules", "next_runs", "delete_schedule":
		return d.schedule(ctx, c)
	case "create_key", "keys", "revoke_key":
		return d.keys(ctx, c)
	case "stop":
		return d.stop(c)
	default:
		return nil, fmt.Errorf("unknown command %q", c.Do)
	}
}

// shown returns a value as the server writes it, or the error.
func shown[T any](value T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return asServer(value)
}

func (d *driver) publish(ctx context.Context, c *command) (any, error) {
	queue := d.client.Queue(c.Queue)
	switch c.Do {
	case "publish":
		return shown(queue.Publish(ctx, c.payload(), c.publishOptions()...))
	case "publish_batch":
		return publishBatch(ctx, queue, c)
	case "publish_many":
		return publishMany(ctx, queue, c)
	default:
		result, err := queue.Call(ctx, c.payload(), orZero(c.WaitMS), c.publishOptions()...)
		return resultOf(result, err)
	}
}

func resultOf(result *client.CallResult, err error) (any, error) {
	switch {
	case err != nil:
		return nil, err
	case !result.Done:
		return map[string]any{"pending": result.Job}, nil
	default:
		return written(result.Result, "result"), nil
	}
}

func publishBatch(ctx context.Context, queue *client.Queue, c *command) (any, error) {
	jobs := make([]client.Job, len(c.Jobs))
	for i := range c.Jobs {
		jobs[i] = client.Job{Payload: c.Jobs[i].payload(), Options: c.Jobs[i].publishOptions()}
	}
	if c.Atomic {
		return shown(queue.PublishAtomic(ctx, jobs))
	}
	results, err := queue.PublishBatch(ctx, jobs)
	if err != nil {
		return nil, err
	}
	answers := make([]any, len(results))
	for i, result := range results {
		answers[i] = result.Published
		if result.Err != nil {
			answers[i] = map[string]any{"error": errorOf(result.Err)}
		}
	}
	return asServer(answers)
}

func publishMany(ctx context.Context, queue *client.Queue, c *command) (any, error) {
	payload := strings.Repeat("x", max(c.PayloadBytes-2, 0))
	var left, published atomic.Int64
	left.Store(int64(c.Count))
	var publishers sync.WaitGroup
	var first atomic.Pointer[error]
	for range max(c.Concurrency, 1) {
		publishers.Add(1)
		go func() {
			defer publishers.Done()
			for left.Add(-1) >= 0 && first.Load() == nil {
				if _, err := queue.Publish(ctx, payload); err != nil {
					first.CompareAndSwap(nil, &err)
					return
				}
				published.Add(1)
			}
		}()
	}
	publishers.Wait()
	if err := first.Load(); err != nil {
		return nil, *err
	}
	return map[string]any{"published": published.Load()}, nil
}

func (d *driver) consume(ctx context.Context, c *command) (any, error) {
	switch c.Do {
	case "reserve":
		return d.reserve(ctx, c)
	case "ack":
		acks := make([]client.Ack, len(c.Leases))
		for i, lease := range c.Leases {
			acks[i].Lease = lease
		}
		return shown(d.client.Ack(ctx, acks))
	case "touch":
		return shown(d.client.Touch(ctx, c.Leases, c.LeaseMS.duration()))
	case "release":
		return shown(d.client.Release(ctx, c.Leases, c.DelayMS.duration()))
	default:
		fails := make([]client.Fail, len(c.Leases))
		for i, lease := range c.Leases {
			fails[i] = client.Fail{Lease: lease, Error: c.Error, Dead: c.Dead}
			if c.RetryInMS != nil {
				fails[i].RetryIn = client.Ptr(c.RetryInMS.duration())
			}
		}
		return shown(d.client.Fail(ctx, fails))
	}
}

func (d *driver) reserve(ctx context.Context, c *command) (any, error) {
	request := client.ReserveRequest{MaxJobs: c.MaxJobs, Wait: orZero(c.WaitMS), Lease: c.LeaseMS.duration()}
	for _, queue := range c.Queues {
		request.Queues = append(request.Queues, client.QueueWeight{Queue: queue})
	}
	answer, err := d.client.Reserve(ctx, request)
	if err != nil {
		return nil, err
	}
	jobs := make([]any, len(answer.Jobs))
	for i := range answer.Jobs {
		jobs[i] = leased(&answer.Jobs[i])
	}
	return jobs, nil
}

func leased(job *client.LeasedJob) map[string]any {
	fields := written(job.Payload, "payload")
	fields["id"], fields["queue"], fields["lease"] = job.ID, job.Queue, job.Lease
	fields["attempt"], fields["failures"] = job.Attempt, job.Failures
	fields["content_type"] = job.Payload.ContentType
	if job.Attributes != nil {
		fields["attributes"] = job.Attributes
	}
	if job.Key != "" {
		fields["key"] = job.Key
	}
	if job.Group != "" {
		fields["group"] = job.Group
	}
	return fields
}

func (d *driver) job(ctx context.Context, c *command) (any, error) {
	job := d.client.Queue(c.Queue).Job(c.Job.ID)
	if c.Job.ID == "" {
		job = d.client.Queue(c.Queue).JobWithKey(c.Job.Key)
	}
	switch c.Do {
	case "show":
		return shown(job.Show(ctx))
	case "explain":
		return shown(job.Explain(ctx))
	case "payload":
		payload, err := job.Payload(ctx)
		if err != nil {
			return nil, err
		}
		return written(payload, "payload"), nil
	case "result":
		result, err := job.Result(ctx, orZero(c.WaitMS))
		if err != nil || !result.Done {
			return resultOf(result, err)
		}
		return written(result.Result, "payload"), nil
	case "promote":
		return shown(job.Promote(ctx))
	case "change":
		return shown(job.Change(ctx, c.Options.changeOptions()...))
	default:
		var options []client.CancelOption
		if c.Running != "" {
			options = append(options, client.Running(c.Running))
		}
		return shown(job.Cancel(ctx, options...))
	}
}

func (d *driver) queue(ctx context.Context, c *command) (any, error) {
	queue := d.client.Queue(c.Queue)
	switch c.Do {
	case "list_jobs":
		return shown(queue.Jobs(c.Filter.filter()).PageSize(c.PageSize).All(ctx))
	case "act":
		return d.act(ctx, queue, c)
	case "queue":
		return shown(queue.Counts(ctx))
	case "queues":
		return shown(d.client.Queues().PageSize(c.PageSize).All(ctx))
	case "policy":
		return shown(queue.Policy(ctx))
	case "set_policy":
		return shown(queue.ChangePolicy(ctx, client.PolicyChange{Fields: c.Policy}))
	case "delete_queue":
		return map[string]any{"outcome": "deleted"}, queue.Delete(ctx)
	case "purge":
		deleted, err := queue.Purge(ctx, c.State)
		return map[string]any{"deleted": deleted}, err
	default:
		respawned, err := queue.Respawn(ctx, client.Respawn{Limit: c.Limit})
		return map[string]any{"respawned": respawned}, err
	}
}

func (d *driver) act(ctx context.Context, queue *client.Queue, c *command) (any, error) {
	action, err := c.action()
	if err != nil {
		return nil, err
	}
	if c.DryRun {
		return shown(queue.CountMatching(ctx, action, c.Filter.filter()))
	}
	return shown(queue.Act(ctx, action, c.Filter.filter()))
}

func (d *driver) schedule(ctx context.Context, c *command) (any, error) {
	schedule := d.client.Schedule(c.Name)
	switch c.Do {
	case "set_schedule":
		var described client.Schedule
		if err := json.Unmarshal(c.Schedule, &described); err != nil {
			return nil, &client.Error{Class: client.ErrInvalidRequest, Detail: err.Error(), Applied: client.AppliedNo}
		}
		return shown(schedule.Set(ctx, described))
	case "schedule":
		return shown(schedule.Show(ctx))
	case "schedules":
		return shown(d.client.Schedules().All(ctx))
	case "next_runs":
		runs, err := schedule.Next(ctx, max(c.Count, 1))
		return shown(map[string]any{"runs": runs}, err)
	default:
		return map[string]any{"outcome": "deleted"}, schedule.Delete(ctx)
	}
}

func (d *driver) keys(ctx context.Context, c *command) (any, error) {
	switch c.Do {
	case "create_key":
		return shown(d.client.CreateKey(ctx, client.NewAPIKey{
			Scopes: c.Key.Scopes, Description: c.Key.Description, ExpiresAt: c.Key.ExpiresAt.Time,
			Namespace: c.Key.Namespace, Pool: c.Key.Pool,
		}))
	case "keys":
		return shown(d.client.Keys().All(ctx))
	default:
		return map[string]any{"outcome": "revoked", "id": c.KeyID}, d.client.RevokeKey(ctx, c.KeyID)
	}
}
