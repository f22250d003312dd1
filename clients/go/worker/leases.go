package worker

import (
	"context"
	"sync"
	"time"
)

const (
	// The table is looked into at least and at most so often.
	tickMin = 10 * time.Millisecond
	tickMax = time.Second
	// A lease is extended after a third of it. Looking twice as often bounds how late that is.
	ticksPerLease = 6
)

// held is a job that the worker holds: its handler runs, or it waits for a slot.
type held struct {
	job    *Job
	ctx    context.Context
	cancel context.CancelCauseFunc
	length time.Duration

	// The fields below are guarded by the table.
	expires time.Time
	// extended is when the lease was granted or last extended.
	extended time.Time
	// touching says that a request to extend the lease is in flight.
	touching bool
	// extendUntil ends the extensions; the zero time never does.
	extendUntil time.Time
}

func (h *held) due(now time.Time) bool {
	tooLong := !h.extendUntil.IsZero() && !now.Before(h.extendUntil)
	return !tooLong && !h.touching && now.Sub(h.extended) >= h.length/3
}

// leaseTable has the jobs that the worker holds. Whoever removes a job from it reports its end, so that it is reported
// once.
type leaseTable struct {
	mutex     sync.Mutex
	held      map[*held]struct{}
	shortest  time.Duration
	shortened chan struct{}
}

func newLeaseTable() *leaseTable {
	return &leaseTable{held: make(map[*held]struct{}), shortest: time.Hour, shortened: make(chan struct{}, 1)}
}

func (t *leaseTable) insert(jobs []*held) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, h := range jobs {
		t.held[h] = struct{}{}
		if h.length < t.shortest {
			t.shortest = h.length
			notify(t.shortened)
		}
	}
}

// remove takes a job from the table; it returns false if it is not there any more. It also returns when the lease ends.
func (t *leaseTable) remove(h *held) (time.Time, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	_, has := t.held[h]
	delete(t.held, h)
	return h.expires, has
}

// drain takes all jobs.
func (t *leaseTable) drain() []*held {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	all := make([]*held, 0, len(t.held))
	for h := range t.held {
		all = append(all, h)
	}
	clear(t.held)
	return all
}

// cancelAll ends the contexts of all handlers.
func (t *leaseTable) cancelAll(cause error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for h := range t.held {
		h.cancel(cause)
	}
}

// tick is how long to wait until the table is looked into again.
func (t *leaseTable) tick() time.Duration {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return min(max(t.shortest/ticksPerLease, tickMin), tickMax)
}

// due returns the leases to extend now, by their lengths. They are not due again until [leaseTable.touched]. It ends the
// contexts of jobs whose leases have ended.
func (t *leaseTable) due(now time.Time) map[time.Duration][]*held {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	var due map[time.Duration][]*held
	for h := range t.held {
		switch {
		case !now.Before(h.expires):
			delete(t.held, h)
			h.cancel(ErrLeaseLost)
		case h.due(now):
			if due == nil {
				due = make(map[time.Duration][]*held)
			}
			h.touching = true
			due[h.length] = append(due[h.length], h)
		}
	}
	return due
}

// begin says that the handler of a job starts. It returns false if the job is not held any more.
func (t *leaseTable) begin(h *held, maxRun time.Duration) bool {
	now := time.Now()
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if _, has := t.held[h]; !has || !now.Before(h.expires) {
		delete(t.held, h)
		return false
	}
	if maxRun > 0 {
		h.extendUntil = now.Add(maxRun)
	}
	return true
}

// extend says that a lease was extended by a request that was sent then.
func (t *leaseTable) extend(h *held, sent time.Time) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if _, has := t.held[h]; has {
		h.extended = sent
		h.expires = sent.Add(h.length)
	}
}

// touched says that the requests to extend these leases are over.
func (t *leaseTable) touched(jobs []*held) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, h := range jobs {
		h.touching = false
	}
}

// lose takes a job whose lease is lost, and ends the context of its handler.
func (t *leaseTable) lose(h *held) {
	if _, has := t.remove(h); has {
		h.cancel(ErrLeaseLost)
	}
}

// notify wakes the receiver of a channel with room for one value.
func notify(channel chan<- struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}
