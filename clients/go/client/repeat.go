package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// retryAfterMax is the longest Retry-After that is waited for. If it is longer the error is returned.
const retryAfterMax = 30 * time.Second

// Repetitions says how often a request that failed is repeated, and the delays between.
//
// The first delay is doubled up to the longest one, and each is made longer at random, up to twice. A Retry-After of up
// to 30 s is waited for; if it is longer the error is returned.
type Repetitions struct {
	// Most is the most repetitions of one request; 0 for none. Default: 7.
	Most int
	// First is the first delay. Default: 100 ms.
	First time.Duration
	// Longest is the longest delay, before it is made longer at random. Default: 5 s.
	Longest time.Duration
}

func defaultRepetitions() Repetitions {
	return Repetitions{Most: 7, First: 100 * time.Millisecond, Longest: 5 * time.Second}
}

// delay returns the delay before the repetition with this number, from 0; false if the request is not repeated any more.
func (r Repetitions) delay(number int, failed *Error) (time.Duration, bool) {
	if number >= r.Most || failed.RetryAfter > retryAfterMax {
		return 0, false
	}
	return max(Backoff(r.First, r.Longest, number), failed.RetryAfter), true
}

// Backoff returns a delay that is doubled with each number, from 0, up to the longest one, and made longer at random, up
// to twice.
func Backoff(first, longest time.Duration, number int) time.Duration {
	delay := first
	for range number {
		if delay >= longest {
			break
		}
		delay *= 2
	}
	delay = min(delay, longest)
	if delay <= 0 {
		return 0
	}
	return delay + rand.N(delay)
}

// send sends a request, and repeats it after errors as its safety allows.
func (c *Client) send(ctx context.Context, r *request) (*reply, error) {
	var lost *Error
	for number := 0; ; number++ {
		answer, failed := c.sendOnce(ctx, r)
		if number == 0 && r.firstEnded != nil {
			r.firstEnded()
		}
		if failed == nil {
			return answer, nil
		}
		delay, again := c.repetitions.delay(number, failed)
		if !again || !failed.repeated(r.safe) || ctx.Err() != nil {
			return nil, lostOr(lost, failed, r)
		}
		if lost == nil && failed.Applied == AppliedUnknown {
			lost = failed
		}
		if !c.wait(ctx, delay) {
			return nil, interrupted(ctx, lostOr(lost, failed, r))
		}
	}
}

// lostOr returns the error of an earlier attempt whose answer was lost, if the last error says that nothing was changed:
// this is not known of the earlier attempt. A 404 is returned, since it is true however it came about.
func lostOr(lost, last *Error, r *request) *Error {
	if lost != nil && r.method != "GET" && last.Applied == AppliedNo && last.Status != 404 {
		return lost
	}
	return last
}

// interrupted returns the error with the cause that the context has ended before the request was repeated.
func interrupted(ctx context.Context, failed *Error) *Error {
	copied := *failed
	copied.cause = errors.Join(context.Cause(ctx), failed.cause)
	return &copied
}

// sleep waits; it returns false if the context ends before.
func sleep(ctx context.Context, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
