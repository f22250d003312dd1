package worker

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
)

const (
	// gatherEnds is how long the end of a job waits for a reserve that is sent anyway, or for other ends.
	gatherEnds = 2 * time.Millisecond
	// reportCallsMax is the most batches of reports in flight.
	reportCallsMax = 8
	// unreportedMax is the most ends that are not reported yet. Then no jobs are reserved.
	unreportedMax = 4096
	// settledMax and settledBytesMax limit the ends that travel with one reserve.
	settledMax      = 512
	settledBytesMax = 1 << 20
	// reportBytesMax limits a batch of reports: the server takes 4 MiB of failures, and more of acks.
	reportBytesMax = 2 << 20
	// errorBytesMax is how much of an error the server keeps.
	errorBytesMax = 1024
)

// endKind is how the run of a handler has ended.
type endKind int

const (
	done endKind = iota
	failed
	released
)

// end is the end of a job, to be reported.
type end struct {
	held *held
	kind endKind
	// expires is when the lease ends; after that the report is useless.
	expires time.Time
	result  client.Payload
	text    string
	retryIn *time.Duration
	dead    bool
	delay   time.Duration
}

// bytes is about how long the end is in a request.
func (e *end) bytes() int { return len(e.result.Data) + min(len(e.text), errorBytesMax) }

func (e *end) ack() client.Ack { return client.Ack{Lease: e.held.job.Lease, Result: e.result} }

func (e *end) fail() client.Fail {
	text := strings.ToValidUTF8(e.text[:min(len(e.text), errorBytesMax)], "")
	return client.Fail{Lease: e.held.job.Lease, Error: text, RetryIn: e.retryIn, Dead: e.dead}
}

// reports sends the ends of jobs, many in one request. They wait a moment for a reserve that takes them along.
type reports struct {
	settler *settler
	ctx     context.Context
	abandon context.CancelFunc

	mutex   sync.Mutex
	pending []end
	timer   *time.Timer
	armed   bool
	calls   int
	// unreported counts the ends that are pending or in flight.
	unreported int
	finishing  bool
	finished   chan struct{}
	// freed is notified when jobs may be reserved again.
	freed chan<- struct{}
}

func newReports(s *settler, freed chan<- struct{}) *reports {
	ctx, abandon := context.WithCancel(context.Background())
	r := &reports{settler: s, ctx: ctx, abandon: abandon, finished: make(chan struct{}), freed: freed}
	r.timer = time.AfterFunc(time.Hour, r.flush)
	r.timer.Stop()
	return r
}

// add takes the end of a job.
func (r *reports) add(e end) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.pending = append(r.pending, e)
	r.unreported++
	if r.finishing {
		r.send()
	} else if !r.armed {
		r.armed = true
		r.timer.Reset(gatherEnds)
	}
}

// full reports whether so many ends wait that no jobs should be reserved.
func (r *reports) full() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.unreported >= unreportedMax
}

// take returns ends that travel with a reserve. The reserve settles them, or sends them again by themselves.
func (r *reports) take() []end {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if len(r.pending) == 0 {
		return nil
	}
	taken := make([]end, 0, min(len(r.pending), settledMax))
	left := r.pending[:0]
	bytes := 0
	for _, e := range r.pending {
		size := e.bytes()
		if e.kind == released || len(taken) == settledMax || bytes+size > settledBytesMax {
			left = append(left, e)
			continue
		}
		bytes += size
		taken = append(taken, e)
	}
	r.pending = left
	return taken
}

// settled says that a reserve has reported these ends.
func (r *reports) settled(count int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.reported(count)
}

// resend sends ends by themselves, whose reserve has failed.
func (r *reports) resend(ends []end) {
	if len(ends) == 0 {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.start(ends)
}

func (r *reports) flush() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.armed = false
	r.send()
}

// send sends the pending ends, unless enough requests are in flight. The caller holds the mutex.
func (r *reports) send() {
	for len(r.pending) > 0 && r.calls < reportCallsMax {
		batch := r.pending[:batchSize(r.pending)]
		r.pending = r.pending[len(batch):]
		r.start(batch)
	}
	if len(r.pending) == 0 {
		// The batches have the former array.
		r.pending = nil
	}
}

// batchSize is how many of the ends the next batch has.
func batchSize(ends []end) int {
	most := min(len(ends), leasesMax)
	bytes := 0
	for i := range most {
		bytes += ends[i].bytes()
		if i > 0 && bytes > reportBytesMax {
			return i
		}
	}
	return most
}

// start sends a batch. The caller holds the mutex.
func (r *reports) start(batch []end) {
	r.calls++
	go func() {
		r.settler.settle(r.ctx, batch)
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.calls--
		r.reported(len(batch))
		if r.finishing || !r.armed {
			r.send()
		}
	}()
}

func (r *reports) reported(count int) {
	if r.unreported >= unreportedMax {
		notify(r.freed)
	}
	r.unreported -= count
	if r.finishing && r.unreported == 0 {
		close(r.finished)
	}
}

// finish sends all ends that are left. It returns false if they are not reported in time. Nothing is added after it.
func (r *reports) finish(limit time.Duration) bool {
	r.mutex.Lock()
	r.finishing = true
	r.timer.Stop()
	r.send()
	none := r.unreported == 0
	r.mutex.Unlock()
	defer r.abandon()
	if none {
		return true
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.finished:
		return true
	case <-timer.C:
		return false
	}
}
