package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
)

const (
	settleDelayFirst   = 50 * time.Millisecond
	settleDelayLongest = time.Second
	// The limits of one attempt of a report: an answer that is late must leave time for another request.
	settleLimitMin = 200 * time.Millisecond
	settleLimitMax = 10 * time.Second
	// retryAfterMax is the longest Retry-After that is waited for.
	retryAfterMax = 30 * time.Second
	// settleCallsMax is the most requests of one batch in flight: releases with different delays take one each.
	settleCallsMax = 8
)

// settler sends the requests that report ends of jobs. Each is repeated until the leases of its jobs have ended.
type settler struct {
	client   *client.Client
	settings *settings
}

// settle reports a batch: acks, failures and releases at the same time.
func (s *settler) settle(ctx context.Context, batch []end) {
	acks, fails, releases := sorted(batch)
	var calls sync.WaitGroup
	room := make(chan struct{}, settleCallsMax)
	run := func(call func()) {
		room <- struct{}{}
		calls.Add(1)
		go func() {
			defer calls.Done()
			call()
			<-room
		}()
	}
	if len(acks) > 0 {
		run(func() { s.ack(ctx, acks) })
	}
	if len(fails) > 0 {
		run(func() { s.fail(ctx, fails) })
	}
	for delay, ends := range releases {
		run(func() { s.release(ctx, ends, delay) })
	}
	calls.Wait()
}

func sorted(batch []end) (acks, fails []end, releases map[time.Duration][]end) {
	for _, e := range batch {
		switch e.kind {
		case done:
			acks = append(acks, e)
		case failed:
			fails = append(fails, e)
		case released:
			if releases == nil {
				releases = make(map[time.Duration][]end)
			}
			releases[e.delay] = append(releases[e.delay], e)
		}
	}
	return acks, fails, releases
}

func acksOf(ends []end) []client.Ack {
	acks := make([]client.Ack, len(ends))
	for i := range ends {
		acks[i] = ends[i].ack()
	}
	return acks
}

func failsOf(ends []end) []client.Fail {
	fails := make([]client.Fail, len(ends))
	for i := range ends {
		fails[i] = ends[i].fail()
	}
	return fails
}

// ack reports jobs that are done. One result that is not accepted must not keep the others from being reported, so a batch
// that is refused is sent in halves. The job of the result is dead, since its work is done and would be done again.
func (s *settler) ack(ctx context.Context, ends []end) {
	err := s.repeat(ctx, "ack", ends, func(ctx context.Context) ([]client.Outcome, error) {
		return s.client.Ack(ctx, acksOf(ends))
	})
	if !refused(err) {
		return
	}
	if half := len(ends) / 2; half > 0 {
		s.ack(ctx, ends[:half])
		s.ack(ctx, ends[half:])
		return
	}
	rejected := ends[0]
	rejected.kind, rejected.dead, rejected.retryIn = failed, true, nil
	rejected.text = "the work is done, but the result was not accepted: " + err.Error()
	s.fail(ctx, []end{rejected})
}

func (s *settler) fail(ctx context.Context, ends []end) {
	err := s.repeat(ctx, "fail", ends, func(ctx context.Context) ([]client.Outcome, error) {
		return s.client.Fail(ctx, failsOf(ends))
	})
	if half := len(ends) / 2; refused(err) && half > 0 {
		s.fail(ctx, ends[:half])
		s.fail(ctx, ends[half:])
	}
}

func (s *settler) release(ctx context.Context, ends []end, delay time.Duration) {
	leases := make([]string, len(ends))
	for i := range ends {
		leases[i] = ends[i].held.job.Lease
	}
	_ = s.repeat(ctx, "release", ends, func(ctx context.Context) ([]client.Outcome, error) {
		return s.client.Release(ctx, leases, delay)
	})
}

// refused reports whether the server has refused the content of a report.
func refused(err error) bool {
	var rejected *client.Error
	return errors.As(err, &rejected) && errors.Is(err, client.ErrInvalidRequest)
}

// repeat sends a report until it is answered, refused, or useless.
func (s *settler) repeat(
	ctx context.Context, name string, ends []end, call func(context.Context) ([]client.Outcome, error),
) error {
	until := lastExpiry(ends)
	for number := 0; ; number++ {
		outcomes, err := attempt(ctx, until, call)
		if err == nil {
			s.outcomes(ends, outcomes)
			return nil
		}
		s.settings.hooks.failed(name, err)
		left := time.Until(until)
		if !temporary(err) || left <= 0 || ctx.Err() != nil {
			s.settings.logger.Error("failed to report jobs", "request", name, "jobs", len(ends), "error", err)
			return err
		}
		s.settings.logger.Warn("failed to report jobs; trying again", "request", name, "jobs", len(ends), "error", err)
		delay := client.Backoff(settleDelayFirst, settleDelayLongest, number)
		pause(ctx, min(max(delay, retryAfter(err)), left))
	}
}

func attempt(
	ctx context.Context, until time.Time, call func(context.Context) ([]client.Outcome, error),
) ([]client.Outcome, error) {
	limit := min(max(time.Until(until)/2, settleLimitMin), settleLimitMax)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return call(ctx)
}

// outcomes tells the hooks and the log what the server has answered.
func (s *settler) outcomes(ends []end, outcomes []client.Outcome) {
	lost := 0
	for i, outcome := range outcomes[:min(len(outcomes), len(ends))] {
		s.settings.hooks.reported(ends[i].held.job, outcome.Outcome)
		if outcome.Outcome == "lost" {
			lost++
		}
	}
	if lost > 0 {
		s.settings.logger.Warn("leases ended before the jobs were reported; these jobs run again", "jobs", lost)
	}
}

func lastExpiry(ends []end) time.Time {
	var last time.Time
	for i := range ends {
		if ends[i].expires.After(last) {
			last = ends[i].expires
		}
	}
	return last
}

// temporary reports whether a report is sent again. A success that cannot be read is no answer.
func temporary(err error) bool {
	var failed *client.Error
	return errors.As(err, &failed) && (failed.Temporary() || failed.Status/100 == 2)
}

// retryAfter is when the server says that the request may succeed, up to 30 s.
func retryAfter(err error) time.Duration {
	var failed *client.Error
	if errors.As(err, &failed) {
		return min(failed.RetryAfter, retryAfterMax)
	}
	return 0
}

func pause(ctx context.Context, delay time.Duration) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
