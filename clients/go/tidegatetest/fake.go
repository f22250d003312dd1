package tidegatetest

import (
	"context"
	"fmt"
	"net/http"
	"sort"
	"sync"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
	"github.com/tidegate/tidegate/clients/go/worker"
)

const (
	namespace   = "test"
	defaultHold = time.Minute
	// runsMax ends RunDue if handlers publish due jobs for ever.
	runsMax = 100_000
)

// Fake is a server in memory for one namespace. Its clock stands still until a test moves it.
//
// It knows publishes with and without keys, batches, retries, results, priorities, reserve, ack, fail, touch, release, and
// show, change, promote and cancel of jobs. It answers at once, also if a request waits. It has neither policies nor
// schedules, and no limits; other requests are answered 501.
//
// A Fake is safe for concurrent use.
type Fake struct {
	mutex sync.Mutex
	now   time.Time
	jobs  []*fakeJob
	next  int
}

// NewFake makes a server without jobs. Its clock shows the current time in whole seconds.
func NewFake() *Fake { return &Fake{now: time.Now().UTC().Truncate(time.Second)} }

// Client returns a client of the server.
func (f *Fake) Client() *client.Client {
	c, err := client.New(
		client.WithURL("http://fake.invalid"), client.WithKey("fake"), client.WithNamespace(namespace),
		client.WithHTTPClient(&http.Client{Transport: f}), client.WithRepetitions(client.Repetitions{}),
	)
	if err != nil {
		// All settings are constants.
		panic(err)
	}
	return c
}

// Now returns the time that the clock shows.
func (f *Fake) Now() time.Time {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.now
}

// Advance moves the clock. Leases that end meanwhile are lost.
func (f *Fake) Advance(d time.Duration) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.now = f.now.Add(d)
	f.settleTime()
}

// Job is a job of a fake.
type Job struct {
	ID         string
	Queue      string
	Key        string
	Group      string
	Priority   int
	Attributes map[string]string
	Payload    client.Payload
	State      client.State
	// RunAt is when the job was or is due.
	RunAt     time.Time
	CreatedAt time.Time
	Attempt   int
	Failures  int
	Losses    int
	LastError string
	// Result is the result of a job that is done.
	Result client.Payload
}

// Jobs returns the jobs of a queue in the order of their publishes, also those that are done. Jobs that were cancelled are
// left out.
func (f *Fake) Jobs(queue string) []Job {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var jobs []Job
	for _, job := range f.jobs {
		if job.Queue == queue && !job.deleted {
			jobs = append(jobs, job.Job)
		}
	}
	return jobs
}

// Waiting returns the jobs of a queue that are delayed or ready.
func (f *Fake) Waiting(queue string) []Job {
	var waiting []Job
	for _, job := range f.Jobs(queue) {
		if job.State == client.Delayed || job.State == client.Ready {
			waiting = append(waiting, job)
		}
	}
	return waiting
}

// RunDue runs the handlers of the worker for all jobs that are due, one after the other in this goroutine, until no more
// are due, and returns how many have run. Jobs that fail run again when the clock has been moved.
func (f *Fake) RunDue(ctx context.Context, w *worker.Worker) (int, error) {
	queues := w.Queues()
	for count := 0; count < runsMax; count++ {
		if err := ctx.Err(); err != nil {
			return count, err
		}
		job := f.takeDue(queues)
		if job == nil {
			return count, nil
		}
		f.apply(job.lease(), w.RunJob(ctx, job.leased(f.Now())))
	}
	return runsMax, fmt.Errorf("tidegatetest: %d jobs have run, and others are due: do handlers publish due jobs for ever?", runsMax)
}

// takeDue leases the next job that is due.
func (f *Fake) takeDue(queues []string) *fakeJob {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	taken := f.reserve(queues, 1, 0)
	if len(taken) == 0 {
		return nil
	}
	return taken[0]
}

func (f *Fake) apply(lease string, ended worker.End) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	switch {
	case ended.Done:
		f.ack(lease, ended.Result)
	case ended.Snoozed:
		f.release(lease, ended.Delay)
	default:
		f.fail(lease, ended.Error, ended.RetryIn, ended.Dead)
	}
}

// reserve leases ready jobs of the queues: by queue, priority and time. The caller holds the mutex.
func (f *Fake) reserve(queues []string, most int, lease time.Duration) []*fakeJob {
	f.settleTime()
	var taken []*fakeJob
	for _, queue := range queues {
		for _, job := range f.ready(queue) {
			if len(taken) == most {
				return taken
			}
			job.State = client.Leased
			job.Attempt++
			job.length = firstOf(lease, job.options.lease, defaultHold)
			job.leaseUntil = f.now.Add(job.length)
			taken = append(taken, job)
		}
	}
	return taken
}

func (f *Fake) ready(queue string) []*fakeJob {
	var ready []*fakeJob
	for _, job := range f.jobs {
		if job.Queue == queue && job.State == client.Ready && !job.deleted {
			ready = append(ready, job)
		}
	}
	sort.SliceStable(ready, func(i, j int) bool {
		if ready[i].Priority != ready[j].Priority {
			return ready[i].Priority > ready[j].Priority
		}
		return ready[i].RunAt.Before(ready[j].RunAt)
	})
	return ready
}

// settleTime makes jobs ready that are due, and takes jobs from workers whose leases have ended.
func (f *Fake) settleTime() {
	for _, job := range f.jobs {
		if job.State == client.Leased && !f.now.Before(job.leaseUntil) {
			job.Losses++
			f.comeBack(job, 0)
		}
		if job.State == client.Delayed && !f.now.Before(job.RunAt) {
			job.State = client.Ready
		}
		late := job.options.startWithin > 0 && f.now.After(job.RunAt.Add(job.options.startWithin))
		if late && job.State == client.Ready && job.Attempt == 0 {
			job.deleted = true
		}
	}
}

func firstOf(durations ...time.Duration) time.Duration {
	for _, d := range durations {
		if d > 0 {
			return d
		}
	}
	return 0
}
