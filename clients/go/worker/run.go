package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
)

const (
	// abortLimit is how long a stop waits for handlers whose contexts it has ended.
	abortLimit = time.Second
	// flushLimit is how long a stop waits until the server has the last reports.
	flushLimit = 10 * time.Second
)

// run is one run of a worker.
type run struct {
	ctx      context.Context
	worker   *Worker
	client   *client.Client
	leases   *leaseTable
	settler  *settler
	reports  *reports
	handlers map[string]Handler

	// ending is held while a job is taken from the table of leases and its end is added to the reports, so that a stop
	// misses no end.
	ending sync.Mutex

	running atomic.Int64
	runs    sync.WaitGroup
	freed   chan struct{}
	// slots hands jobs to goroutines whose handlers have ended. Their stacks have grown already.
	slots chan *held
}

// newRun prepares a run. The client repeats no request: the run does so by its own rules.
func newRun(ctx context.Context, w *Worker, c *client.Client) *run {
	s := &settler{client: c, settings: &w.settings}
	freed := make(chan struct{}, 1)
	return &run{
		ctx:      ctx,
		worker:   w,
		client:   c,
		leases:   newLeaseTable(),
		settler:  s,
		reports:  newReports(s, freed),
		handlers: w.wrapped(),
		freed:    freed,
		slots:    make(chan *held),
	}
}

// wrapped returns the handlers with the middleware around them.
func (w *Worker) wrapped() map[string]Handler {
	handlers := make(map[string]Handler, len(w.handlers))
	for queue, handler := range w.handlers {
		for i := len(w.settings.middleware) - 1; i >= 0; i-- {
			handler = w.settings.middleware[i](handler)
		}
		handlers[queue] = handler
	}
	return handlers
}

func (r *run) run() error {
	beating, endBeats := context.WithCancel(r.ctx)
	beats := heartbeats{client: r.client, leases: r.leases, settings: &r.worker.settings}
	var background sync.WaitGroup
	background.Add(1)
	go func() {
		defer background.Done()
		beats.run(beating)
	}()
	reserving, cut := context.WithCancel(r.ctx)
	loop := newReserver(r)
	err := loop.loop(reserving, r.worker.stop)
	graceEnds := time.Now().Add(r.worker.stopGrace())
	loop.end(cut)
	close(r.slots)
	r.endHandlers(time.Until(graceEnds))
	endBeats()
	background.Wait()
	if !r.reports.finish(flushLimit) {
		r.worker.settings.logger.Warn("the last jobs were not reported in time; they run again when their leases end")
	}
	return err
}

// endHandlers gives the handlers this time to end, ends the contexts of the others, and gives their jobs back.
func (r *run) endHandlers(grace time.Duration) {
	ended := make(chan struct{})
	go func() {
		r.runs.Wait()
		close(ended)
	}()
	if within(ended, grace) {
		return
	}
	r.leases.cancelAll(ErrStopping)
	if !within(ended, abortLimit) {
		r.worker.settings.logger.Warn("handlers ignore the end of their contexts; their jobs are given back all the same")
	}
	r.ending.Lock()
	defer r.ending.Unlock()
	for _, h := range r.leases.drain() {
		r.reports.add(end{held: h, kind: released, expires: h.expires})
	}
}

func within(ended <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}

// hold puts the jobs of an answer into the table of leases.
func (r *run) hold(answer *client.Reserved) []*held {
	now := time.Now()
	jobs := make([]*held, len(answer.Jobs))
	for i := range answer.Jobs {
		leased := &answer.Jobs[i]
		length := leased.LeaseUntil.Sub(answer.Now)
		h := &held{job: &Job{LeasedJob: *leased}, length: length, extended: now, expires: now.Add(length)}
		h.ctx, h.cancel = context.WithCancelCause(jobContext(r.ctx, h.job, &r.worker.settings))
		jobs[i] = h
	}
	r.leases.insert(jobs)
	return jobs
}

// giveBack releases a job whose handler does not run.
func (r *run) giveBack(h *held) {
	expires, has := r.leases.remove(h)
	h.cancel(ErrStopping)
	if has {
		r.reports.add(end{held: h, kind: released, expires: expires})
	}
}

// start runs the handler of a job that is held.
func (r *run) start(h *held) {
	r.running.Add(1)
	r.runs.Add(1)
	select {
	case r.slots <- h:
	default:
		go r.slot(h)
	}
}

// slot runs handlers, one after the other, until the worker stops.
func (r *run) slot(h *held) {
	for {
		r.work(h)
		next, more := <-r.slots
		if !more {
			return
		}
		h = next
	}
}
