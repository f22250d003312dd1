package tidegatetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
	"github.com/tidegate/tidegate/clients/go/tidegatetest"
	"github.com/tidegate/tidegate/clients/go/worker"
)

var background = context.Background()

type order struct {
	Order int `json:"order"`
}

func publish(t *testing.T, q *client.Queue, payload any, options ...client.PublishOption) *client.Published {
	t.Helper()
	job, err := q.Publish(background, payload, options...)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// run runs due jobs with this handler, and returns how many have run.
func run(t *testing.T, fake *tidegatetest.Fake, handler func(ctx context.Context, o order) (any, error)) int {
	t.Helper()
	w := worker.New(fake.Client())
	worker.HandleResult(w, "close-unpaid", handler)
	count, err := fake.RunDue(background, w)
	if err != nil {
		t.Fatal(err)
	}
	return count
}

func TestJobsRunWhenTheClockIsMoved(t *testing.T) {
	fake := tidegatetest.NewFake()
	queue := fake.Client().Queue("close-unpaid")
	publish(t, queue, order{17}, client.Delay(30*time.Minute), client.Key("order-17"))
	publish(t, queue, order{18}, client.Delay(30*time.Minute), client.Key("order/18 ü"))
	if _, err := queue.JobWithKey("order/18 ü").Cancel(background); err != nil {
		t.Fatal(err)
	}
	var closed []int
	closing := func(_ context.Context, o order) (any, error) {
		closed = append(closed, o.Order)
		return nil, nil
	}
	if count := run(t, fake, closing); count != 0 {
		t.Error(count)
	}
	fake.Advance(30 * time.Minute)
	if count := run(t, fake, closing); count != 1 || closed[0] != 17 {
		t.Error(count, closed)
	}
	if _, err := queue.JobWithKey("order-17").Show(background); !errors.Is(err, client.ErrNotFound) {
		t.Error(err)
	}
	if jobs := fake.Jobs("close-unpaid"); len(jobs) != 1 || jobs[0].State != client.Done {
		t.Error(jobs)
	}
}

func TestKeys(t *testing.T) {
	fake := tidegatetest.NewFake()
	queue := fake.Client().Queue("close-unpaid")
	first := publish(t, queue, order{1}, client.Key("k"))
	if again := publish(t, queue, order{2}, client.Key("k")); again.Outcome != "exists" || again.ID != first.ID {
		t.Error(again)
	}
	if again := publish(t, queue, order{3}, client.Key("k"), client.IfExists(client.Replace)); again.Outcome != "replaced" {
		t.Error(again)
	}
	_, err := queue.Publish(background, order{4}, client.Key("k"), client.IfExists(client.Reject))
	if client.CodeOf(err) != "key_taken" || !errors.Is(err, client.ErrConflict) {
		t.Error(err)
	}
	idempotent := publish(t, queue, order{5}, client.IdempotencyKey("i"))
	if again := publish(t, queue, order{5}, client.IdempotencyKey("i")); !again.Replayed || again.ID != idempotent.ID {
		t.Error(again)
	}
	results, err := queue.PublishBatch(background, []client.Job{
		{Payload: order{6}}, {Payload: order{7}, Options: []client.PublishOption{client.Key("k"), client.IfExists(client.Reject)}},
	})
	if err != nil || results[0].Err != nil || client.CodeOf(results[1].Err) != "key_taken" {
		t.Error(results, err)
	}
	if waiting := fake.Waiting("close-unpaid"); len(waiting) != 3 || string(waiting[0].Payload.Data) != `{"order":3}` {
		t.Error(waiting)
	}
}

func TestRetries(t *testing.T) {
	fake := tidegatetest.NewFake()
	queue := fake.Client().Queue("close-unpaid")
	publish(t, queue, order{1}, client.MaxAttempts(3), client.Retry(client.RetryPolicy{Delays: []time.Duration{time.Minute, time.Hour}}))
	broken := func(context.Context, order) (any, error) { return nil, errors.New("broken") }
	for i, pause := range []time.Duration{0, time.Minute, time.Hour} {
		fake.Advance(pause - time.Millisecond)
		if i > 0 && run(t, fake, broken) != 0 {
			t.Error("too early")
		}
		fake.Advance(time.Millisecond)
		if run(t, fake, broken) != 1 {
			t.Errorf("attempt %d did not run", i+1)
		}
	}
	if job := fake.Jobs("close-unpaid")[0]; job.State != client.Dead || job.Failures != 3 || job.LastError != "broken" {
		t.Errorf("%+v", job)
	}
	publish(t, queue, order{2}, client.Key("x"))
	run(t, fake, func(context.Context, order) (any, error) {
		return nil, worker.RetryIn(errors.New("later"), 30*time.Second)
	})
	if job := fake.Jobs("close-unpaid")[1]; job.State != client.Delayed || job.RunAt != fake.Now().Add(30*time.Second) {
		t.Errorf("%+v", job)
	}
	if _, err := queue.JobWithKey("x").Promote(background); err != nil {
		t.Error(err)
	}
	run(t, fake, func(context.Context, order) (any, error) { return nil, worker.Dead(errors.New("never")) })
	if job := fake.Jobs("close-unpaid")[1]; job.State != client.Dead || job.LastError != "never" {
		t.Errorf("%+v", job)
	}
}

func TestResults(t *testing.T) {
	fake := tidegatetest.NewFake()
	queue := fake.Client().Queue("close-unpaid")
	call, err := queue.Call(background, order{1}, 0, client.Retain(time.Hour))
	if err != nil || call.Done {
		t.Fatal(call, err)
	}
	run(t, fake, func(_ context.Context, o order) (any, error) { return o.Order + 1, nil })
	result, err := queue.Job(call.Job).Result(background, 0)
	var value int
	if err != nil || !result.Done || result.Decode(&value) != nil || value != 2 {
		t.Error(result, err)
	}
	fake.Advance(time.Hour)
	if _, err := queue.Job(call.Job).Result(background, 0); !errors.Is(err, client.ErrNotFound) {
		t.Error(err)
	}
}

func TestConsumeWithoutAWorker(t *testing.T) {
	fake := tidegatetest.NewFake()
	c := fake.Client()
	publish(t, c.Queue("a"), 1, client.Key("k"))
	reserved, err := c.Reserve(background, client.ReserveRequest{Queues: []client.QueueWeight{{Queue: "a"}}, Lease: time.Second})
	if err != nil || len(reserved.Jobs) != 1 {
		t.Fatal(reserved, err)
	}
	lease := reserved.Jobs[0].Lease
	if _, err := c.Queue("a").JobWithKey("k").Cancel(background, client.Running(client.Ask)); err != nil {
		t.Error(err)
	}
	touched, err := c.Touch(background, []string{lease}, time.Minute)
	if err != nil || !touched[0].CancelRequested || touched[0].LeaseUntil.Sub(fake.Now()) != time.Minute {
		t.Error(touched, err)
	}
	released, err := c.Release(background, []string{lease, lease}, 0)
	if err != nil || released[0].Outcome != "cancelled" || released[1].Outcome != "gone" {
		t.Error(released, err)
	}
	publish(t, c.Queue("a"), 2)
	if reserved, err = c.Reserve(background, client.ReserveRequest{Queues: []client.QueueWeight{{Queue: "a"}}}); err != nil {
		t.Fatal(err)
	}
	fake.Advance(time.Hour)
	acked, err := c.Ack(background, []client.Ack{{Lease: reserved.Jobs[0].Lease}})
	if err != nil || acked[0].Outcome != "lost" {
		t.Error(acked, err)
	}
	if _, err := c.Queue("a").Policy(background); client.CodeOf(err) != "not_in_fake" {
		t.Error(err)
	}
}
