package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
	"github.com/tidegate/tidegate/clients/go/worker"
)

const defaultGrace = 25 * time.Second

// runningWorker is the worker of the process.
type runningWorker struct {
	worker *worker.Worker
	asked  atomic.Bool
	ended  chan struct{}
}

// work starts the worker.
func (d *driver) work(c *command) (any, error) {
	running := &runningWorker{worker: worker.New(d.client, c.workerOptions()...), ended: make(chan struct{})}
	for _, queue := range c.Queues {
		running.worker.HandleJob(queue, d.handle)
	}
	d.mutex.Lock()
	d.worker = running
	d.mutex.Unlock()
	go d.watch(running)
	return map[string]any{}, nil
}

// watch reports the end of the worker. After a stop by a signal the process ends.
func (d *driver) watch(running *runningWorker) {
	err := running.worker.Run(context.Background())
	event := map[string]any{"event": "worker_ended"}
	if err != nil {
		event["error"] = errorOf(err)
	}
	d.lines.write(event)
	if err == nil && !running.asked.Load() {
		os.Exit(0)
	}
	close(running.ended)
}

func (d *driver) stop(c *command) (any, error) {
	d.mutex.Lock()
	running := d.worker
	d.mutex.Unlock()
	if running == nil {
		return nil, errors.New("no worker runs")
	}
	grace := defaultGrace
	if c.GraceMS != nil {
		grace = c.GraceMS.duration()
	}
	running.asked.Store(true)
	running.worker.Stop(grace)
	<-running.ended
	return map[string]any{}, nil
}

func (c *command) workerOptions() []worker.Option {
	var options []worker.Option
	options = appendSet(options, c.Slots, worker.Slots)
	options = appendSet(options, c.Prefetch, worker.Prefetch)
	options = appendSet(options, c.WaitMS, ofMillis(worker.Wait))
	options = appendSet(options, c.MaxRunMS, ofMillis(worker.MaxRun))
	if c.LeaseMS != 0 {
		options = append(options, worker.Lease(c.LeaseMS.duration()))
	}
	if c.Name != "" {
		options = append(options, worker.Name(c.Name))
	}
	if c.Strict {
		options = append(options, worker.StrictOrder())
	}
	if len(c.Weights) > 0 {
		options = append(options, worker.Weights(c.Weights))
	}
	return options
}

// task is the payload of a job: what its handler does.
type task struct {
	Then    string          `json:"then"`
	Error   string          `json:"error"`
	Result  json.RawMessage `json:"result"`
	MS      int64           `json:"ms"`
	SleepMS int64           `json:"sleep_ms"`
	BlockMS int64           `json:"block_ms"`
}

var errAsked = errors.New("asked")

func (d *driver) handle(ctx context.Context, job *worker.Job) (client.Payload, error) {
	var asked task
	if err := job.Payload.Decode(&asked); err != nil {
		// Any other payload is done.
		asked = task{}
	}
	event := map[string]any{"event": "started", "job": job.ID, "attempt": job.Attempt, "queue": job.Queue}
	d.lines.write(event)
	time.Sleep(time.Duration(asked.BlockMS) * time.Millisecond)
	if cause := asked.sleep(ctx); cause != nil {
		d.lines.write(map[string]any{"event": "aborted", "job": job.ID, "attempt": job.Attempt, "reason": reasonOf(cause)})
		return client.Payload{}, cause
	}
	d.lines.write(map[string]any{"event": "ended", "job": job.ID, "attempt": job.Attempt})
	return asked.end()
}

// sleep returns why the context has ended, if it has before the time is over.
func (t *task) sleep(ctx context.Context) error {
	if t.SleepMS == 0 {
		return nil
	}
	timer := time.NewTimer(time.Duration(t.SleepMS) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *task) end() (client.Payload, error) {
	delay := time.Duration(t.MS) * time.Millisecond
	switch t.Then {
	case "result":
		return client.JSON(t.Result)
	case "fail":
		return client.Payload{}, errors.New(t.Error)
	case "retry_in":
		return client.Payload{}, worker.RetryIn(errAsked, delay)
	case "dead":
		return client.Payload{}, worker.Dead(errAsked)
	case "snooze":
		return client.Payload{}, worker.Snooze(delay)
	default:
		return client.Payload{}, nil
	}
}

func reasonOf(cause error) string {
	switch {
	case errors.Is(cause, worker.ErrLeaseLost):
		return "lease_lost"
	case errors.Is(cause, worker.ErrCancelRequested):
		return "cancel_requested"
	case errors.Is(cause, worker.ErrMaxRun):
		return "max_run"
	default:
		return "stopping"
	}
}
