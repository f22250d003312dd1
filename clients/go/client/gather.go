package client

import (
	"context"
	"sync"
	"sync/atomic"
)

const (
	// gatheredJobsMax and gatheredBytesMax limit one request with publishes that have met.
	gatheredJobsMax  = 100
	gatheredBytesMax = 1 << 20
)

// gatherers are the gatherers of a client, by queue. Jobs whose publish is safe to repeat do not share requests with
// others, since these would make the request unsafe to repeat.
type gatherers struct {
	mutex sync.Mutex
	of    map[gathererKey]*gatherer
}

type gathererKey struct {
	queue string
	safe  bool
}

func newGatherers() *gatherers { return &gatherers{of: make(map[gathererKey]*gatherer)} }

// gatherer exists while a publish to its queue is in flight. It has the publishes that wait for it to be answered. They do
// not wait while it is repeated after an error: in an outage each would wait for the repetitions of all before it.
type gatherer struct{ waiting []*gathered }

// gathered is a publish that waits for the one in flight.
type gathered struct {
	job  *jobSpec
	done chan struct{}
	// result and resend are written before done is closed.
	result BatchResult
	// resend says that the publish is sent again, in a request of its own.
	resend bool
	// request counts the callers who wait for the request with the job. It is nil until the request is sent.
	request *sharedRequest
}

// sharedRequest is a request of several callers. It ends early when none of them waits any more.
type sharedRequest struct {
	callers atomic.Int64
	cancel  context.CancelFunc
}

func (s *sharedRequest) leave() {
	if s.callers.Add(-1) == 0 {
		s.cancel()
	}
}

// publish sends a job at once if no publish to its queue is in flight, and otherwise with the next request.
func (g *gatherers) publish(ctx context.Context, q *Queue, job *jobSpec) (*Published, error) {
	key := gathererKey{q.name, job.safe()}
	g.mutex.Lock()
	current, inFlight := g.of[key]
	if !inFlight {
		g.of[key] = &gatherer{}
		g.mutex.Unlock()
		ended := sync.OnceFunc(func() { g.answered(q, key) })
		defer ended()
		return q.publishAlone(ctx, job, ended)
	}
	waiting := &gathered{job: job, done: make(chan struct{})}
	current.waiting = append(current.waiting, waiting)
	g.mutex.Unlock()
	return g.await(ctx, q, key, waiting)
}

func (g *gatherers) await(ctx context.Context, q *Queue, key gathererKey, job *gathered) (*Published, error) {
	select {
	case <-job.done:
	case <-ctx.Done():
		return nil, g.leave(ctx, key, job)
	}
	if job.resend {
		return q.publishAlone(ctx, job.job, nil)
	}
	return job.result.Published, job.result.Err
}

// leave withdraws a publish whose caller does not wait any more.
func (g *gatherers) leave(ctx context.Context, key gathererKey, job *gathered) error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	applied := AppliedUnknown
	if job.request == nil {
		applied = AppliedNo
		if current := g.of[key]; current != nil {
			current.remove(job)
		}
	} else {
		job.request.leave()
	}
	cause := context.Cause(ctx)
	return &Error{Class: ErrConnection, Detail: cause.Error(), Applied: applied, cause: cause}
}

func (g *gatherer) remove(job *gathered) {
	for i, waiting := range g.waiting {
		if waiting == job {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			return
		}
	}
}

// answered sends the publishes that have gathered meanwhile, or ends the gatherer if there are none.
func (g *gatherers) answered(q *Queue, key gathererKey) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	current := g.of[key]
	batch := current.next()
	if len(batch) == 0 {
		delete(g.of, key)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	shared := &sharedRequest{cancel: cancel}
	shared.callers.Store(int64(len(batch)))
	for _, job := range batch {
		job.request = shared
	}
	go func() {
		ended := sync.OnceFunc(func() { g.answered(q, key) })
		defer ended()
		defer cancel()
		q.publishGathered(ctx, batch, key.safe, ended)
	}()
}

// next takes the publishes for the next request.
func (g *gatherer) next() []*gathered {
	count, bytes := 0, 0
	for count < gatheredJobsMax && count < len(g.waiting) {
		bytes += g.waiting[count].job.batchBytes()
		if count > 0 && bytes > gatheredBytesMax {
			break
		}
		count++
	}
	batch := g.waiting[:count:count]
	g.waiting = g.waiting[count:]
	return batch
}

func (q *Queue) publishGathered(ctx context.Context, batch []*gathered, safe bool, ended func()) {
	if len(batch) == 1 {
		published, err := q.publishAlone(ctx, batch[0].job, ended)
		batch[0].finish(BatchResult{Published: published, Err: err}, false)
		return
	}
	items := make([][]byte, len(batch))
	for i, job := range batch {
		items[i] = job.job.batchItem()
	}
	r := batchRequest(q.name, items, safe, false)
	r.firstEnded = ended
	results, err := q.sendBatch(ctx, r, len(items))
	for i, job := range batch {
		if err != nil {
			job.finish(BatchResult{Err: err}, refusedTogether(err))
		} else {
			job.finish(results[i], repeatedAlone(results[i].Err, safe))
		}
	}
}

// refusedTogether reports whether the server has refused a request of several publishes for a reason that may lie in one
// of them.
func refusedTogether(err error) bool {
	failed := asError(err)
	return failed.Applied == AppliedNo && (failed.Class == ErrInvalidRequest || failed.Class == ErrConflict)
}

// repeatedAlone reports whether one publish of several has failed in a way that lets the client repeat it.
func repeatedAlone(err error, safe bool) bool {
	return err != nil && asError(err).repeated(safe)
}

func (j *gathered) finish(result BatchResult, resend bool) {
	j.result, j.resend = result, resend
	close(j.done)
}
