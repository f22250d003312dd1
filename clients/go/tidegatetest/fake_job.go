package tidegatetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
)

const (
	defaultAttempts = 10
	firstRetry      = time.Second
	longestRetry    = time.Hour
)

// fakeJob is a job with what a test does not see.
type fakeJob struct {
	Job
	options         options
	deleted         bool
	cancelRequested bool
	// rerun is the replacement that came while the job ran.
	rerun          *fakeJob
	leaseUntil     time.Time
	length         time.Duration
	retainUntil    time.Time
	idempotencyKey string
}

// options are the options of a publish that a fake knows.
type options struct {
	key, ifExists  string
	group          string
	priority       int
	runAt          time.Time
	delay          time.Duration
	retain         time.Duration
	lease          time.Duration
	startWithin    time.Duration
	maxAttempts    int
	retry          client.RetryPolicy
	idempotencyKey string
}

func (j *fakeJob) lease() string { return fmt.Sprintf("%s.%d.%s", j.ID, j.Attempt, j.Queue) }

func (j *fakeJob) leased(now time.Time) client.LeasedJob {
	return client.LeasedJob{
		ID: j.ID, Queue: j.Queue, Lease: j.lease(), LeaseUntil: now.Add(j.length),
		Attempt: j.Attempt, Failures: j.Failures, Losses: j.Losses, RunAt: j.RunAt, CreatedAt: j.CreatedAt,
		Key: j.Key, Group: j.Group, Attributes: j.Attributes, Payload: j.Payload,
	}
}

// held returns the job that is leased by this lease.
func (f *Fake) held(lease string) (*fakeJob, string) {
	id, _, _ := strings.Cut(lease, ".")
	for _, job := range f.jobs {
		if job.ID != id || job.deleted {
			continue
		}
		switch {
		case job.State == client.Leased && job.lease() == lease:
			return job, ""
		case job.State == client.Done:
			return nil, "gone"
		default:
			return nil, "lost"
		}
	}
	return nil, "gone"
}

func (f *Fake) ack(lease string, result client.Payload) client.Outcome {
	job, refused := f.held(lease)
	if job == nil {
		return client.Outcome{Outcome: refused}
	}
	if job.rerun != nil {
		return f.runAgain(job)
	}
	job.State = client.Done
	job.Result = result
	job.retainUntil = f.now.Add(job.options.retain)
	return client.Outcome{Outcome: "done"}
}

func (f *Fake) fail(lease, text string, retryIn *time.Duration, dead bool) client.Outcome {
	job, refused := f.held(lease)
	if job == nil {
		return client.Outcome{Outcome: refused}
	}
	job.Failures++
	job.LastError = text
	switch {
	case job.rerun != nil:
		return f.runAgain(job)
	case job.cancelRequested:
		job.deleted = true
		return client.Outcome{Outcome: "cancelled"}
	case dead || job.Failures >= job.attempts():
		job.State = client.Dead
		return client.Outcome{Outcome: "dead"}
	}
	delay := job.retryDelay()
	if retryIn != nil {
		delay = *retryIn
	}
	f.comeBack(job, delay)
	at := job.RunAt
	return client.Outcome{Outcome: "retry", RunAt: &at}
}

func (f *Fake) release(lease string, delay time.Duration) client.Outcome {
	job, refused := f.held(lease)
	switch {
	case job == nil:
		return client.Outcome{Outcome: refused}
	case job.rerun != nil:
		return f.runAgain(job)
	case job.cancelRequested:
		job.deleted = true
		return client.Outcome{Outcome: "cancelled"}
	}
	f.comeBack(job, delay)
	return client.Outcome{Outcome: "released"}
}

func (f *Fake) touch(lease string, length time.Duration) client.Outcome {
	job, refused := f.held(lease)
	if job == nil {
		return client.Outcome{Outcome: refused}
	}
	until := f.now.Add(firstOf(length, job.length))
	if until.After(job.leaseUntil) {
		job.leaseUntil = until
	}
	until = job.leaseUntil
	return client.Outcome{Outcome: "extended", LeaseUntil: &until, CancelRequested: job.cancelRequested}
}

// comeBack makes a job due after a delay.
func (f *Fake) comeBack(job *fakeJob, delay time.Duration) {
	job.RunAt = f.now.Add(delay)
	job.State = client.Ready
	if delay > 0 {
		job.State = client.Delayed
	}
}

// runAgain lets a job run again that was replaced while it ran.
func (f *Fake) runAgain(job *fakeJob) client.Outcome {
	replacement := job.rerun
	job.rerun, job.cancelRequested = nil, false
	job.replaceBy(replacement)
	return client.Outcome{Outcome: "rerun"}
}

// replaceBy gives a job the content, the options and the time of another.
func (j *fakeJob) replaceBy(other *fakeJob) {
	j.Payload, j.Attributes, j.Priority, j.Group = other.Payload, other.Attributes, other.Priority, other.Group
	j.RunAt, j.State, j.options = other.RunAt, other.State, other.options
	j.Failures, j.LastError = 0, ""
}

func (j *fakeJob) attempts() int {
	switch {
	case j.options.maxAttempts > 0:
		return j.options.maxAttempts
	case j.options.retry.MaxAttempts > 0:
		return j.options.retry.MaxAttempts
	default:
		return defaultAttempts
	}
}

// retryDelay is the delay after so many failures, without the random part.
func (j *fakeJob) retryDelay() time.Duration {
	retry := j.options.retry
	if count := len(retry.Delays); count > 0 {
		return retry.Delays[min(j.Failures, count)-1]
	}
	if retry.Every > 0 {
		return retry.Every
	}
	delay := float64(firstOf(retry.First, firstRetry))
	factor := retry.Factor
	if factor == 0 {
		factor = 2
	}
	longest := firstOf(retry.Max, longestRetry)
	for range j.Failures - 1 {
		delay = min(delay*factor, float64(longest))
	}
	return time.Duration(min(delay, float64(longest)))
}
