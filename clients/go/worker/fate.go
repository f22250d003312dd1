package worker

import (
	"context"
	"errors"
	"time"
)

// The causes why the context of a handler ends: compare context.Cause with them by errors.Is.
var (
	// ErrLeaseLost: the worker does not hold the job any more. What the handler returns has no effect.
	ErrLeaseLost = errors.New("the lease is lost")
	// ErrCancelRequested: a producer has asked to cancel the job. If the handler returns an error the job is deleted; if
	// it returns nil the job is done.
	ErrCancelRequested = errors.New("the cancellation of the job was requested")
	// ErrMaxRun: the handler has run for longer than [MaxRun].
	ErrMaxRun = errors.New("the handler did not end in time")
	// ErrStopping: the worker stops, and the grace period is over. If the handler returns an error the job is given back;
	// if it returns nil the job is done.
	ErrStopping = errors.New("the worker stops")
)

// fate is an error that says what becomes of the job.
type fate struct {
	err     error
	kind    endKind
	retryIn *time.Duration
	dead    bool
	delay   time.Duration
}

// Error returns the text that is stored in the history of the job.
func (f *fate) Error() string {
	if f.err == nil {
		return "snoozed for " + f.delay.String()
	}
	return f.err.Error()
}

func (f *fate) Unwrap() error { return f.err }

// RetryIn says that the attempt has failed with this error, and that the next one is after this delay. After the last
// attempt the job is dead.
func RetryIn(err error, delay time.Duration) error {
	delay = max(delay, 0)
	return &fate{err: orUnknown(err), kind: failed, retryIn: &delay}
}

// Dead says that the attempt has failed with this error, and that no other attempt can succeed: the job is dead.
func Dead(err error) error { return &fate{err: orUnknown(err), kind: failed, dead: true} }

// Snooze says that the job cannot be done now: it is due again after this delay. This counts as no failure.
func Snooze(delay time.Duration) error { return &fate{kind: released, delay: max(delay, 0)} }

func orUnknown(err error) error {
	if err == nil {
		return errors.New("unknown error")
	}
	return err
}

// endOf returns the end of a job whose handler has returned this error.
func endOf(ctx context.Context, err error) end {
	var asked *fate
	if errors.As(err, &asked) {
		return end{kind: asked.kind, text: err.Error(), retryIn: asked.retryIn, dead: asked.dead, delay: asked.delay}
	}
	cause := context.Cause(ctx)
	if cause == ErrStopping {
		return end{kind: released}
	}
	if cause != nil && err == context.Canceled {
		// The cause says more than that a context has ended.
		err = cause
	}
	return end{kind: failed, text: err.Error()}
}
