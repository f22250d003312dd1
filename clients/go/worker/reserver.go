package worker

import (
	"context"
	"errors"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
)

const (
	reserveJobsMax      = 256
	reserveDelayFirst   = 100 * time.Millisecond
	reserveDelayLongest = 5 * time.Second
	// reserveCallsMax is the most reserves in flight. While the queues have more jobs than slots, each is for at least
	// this part of the slots: fewer and larger requests cost all sides less.
	reserveCallsMax = 2
	// emptyPause follows an empty answer that comes earlier than the wait.
	emptyPause = 50 * time.Millisecond
	// gatherSlots is how long a free slot waits for others while the queues have more jobs than slots.
	gatherSlots = time.Millisecond
	// lastAnswers is how long a stop waits for the answers to reserves, before it cuts them. The jobs of an answer that is
	// on its way when its connection is closed would be held until their leases end.
	lastAnswers = 250 * time.Millisecond
)

// reserver reserves jobs as slots become free, and starts their handlers. It runs in one goroutine.
type reserver struct {
	run      *run
	settings *settings
	request  client.ReserveRequest
	// waiting are jobs that wait for a slot.
	waiting []*held
	answers chan reserved
	calls   int
	// requested is how many jobs the calls in flight may return.
	requested int
	// busy says that the last answer had as many jobs as requested: there are probably more.
	busy     bool
	failures int
	// timer ends a pause, or the time in which slots gather.
	timer *time.Timer
	// notBefore is the end of the pause after an error.
	notBefore time.Time
	// freeSince is when the first of the slots that gather became free.
	freeSince time.Time
}

// reserved is the end of a reserve.
type reserved struct {
	requested int
	took      time.Duration
	ends      []end
	answer    *client.Reserved
	err       error
}

func newReserver(r *run) *reserver {
	settings := &r.worker.settings
	order := "weighted"
	if settings.strict {
		order = "strict"
	}
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &reserver{
		run:      r,
		settings: settings,
		answers:  make(chan reserved, reserveCallsMax),
		timer:    timer,
		request: client.ReserveRequest{
			Queues: r.worker.choices(), Order: order, Wait: settings.wait, Lease: settings.lease, Worker: settings.name,
		},
	}
}

// loop runs jobs until the worker is stopped, or the server rejects the API key.
func (l *reserver) loop(ctx context.Context, stop <-chan struct{}) error {
	defer l.timer.Stop()
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		l.startWaiting()
		l.requestMore(ctx)
		select {
		case <-stop:
			return nil
		case answer := <-l.answers:
			if err := l.take(answer); err != nil {
				return err
			}
		case <-l.run.freed:
		case <-l.timer.C:
		}
	}
}

// requestMore sends a reserve if there is room for jobs. While the queues have more jobs than room, several are in flight.
func (l *reserver) requestMore(ctx context.Context) {
	now := time.Now()
	if now.Before(l.notBefore) {
		l.timer.Reset(l.notBefore.Sub(now))
		return
	}
	room := l.settings.slots + l.settings.prefetch
	free := room - int(l.run.running.Load()) - len(l.waiting) - l.requested
	if free <= 0 || l.calls >= reserveCallsMax || l.calls > 0 && !l.busy || l.run.reports.full() {
		return
	}
	if l.busy && free < (room+1)/reserveCallsMax && (l.calls > 0 || l.gathering(now)) {
		return
	}
	l.freeSince = time.Time{}
	l.send(ctx, min(free, reserveJobsMax))
}

// gathering reports whether a few free slots wait for others, so that one reserve gets jobs for many of them.
func (l *reserver) gathering(now time.Time) bool {
	if l.freeSince.IsZero() {
		l.freeSince = now
	}
	left := gatherSlots - now.Sub(l.freeSince)
	if left <= 0 {
		return false
	}
	l.timer.Reset(left)
	return true
}

func (l *reserver) send(ctx context.Context, jobs int) {
	request := l.request
	request.MaxJobs = jobs
	acks, fails, _ := sorted(l.run.reports.take())
	request.Acks, request.Fails = acksOf(acks), failsOf(fails)
	call := reserved{requested: jobs, ends: append(acks, fails...)}
	if len(call.ends) > 0 {
		// The answer says at once what has become of the ends, and the next reserve waits.
		request.Wait = 0
	}
	l.calls++
	l.requested += jobs
	begun := time.Now()
	go func() {
		call.answer, call.err = l.run.client.Reserve(ctx, request)
		call.took = time.Since(begun)
		l.answers <- call
	}()
}

// take starts the jobs of an answer.
func (l *reserver) take(call reserved) error {
	l.calls--
	l.requested -= call.requested
	if call.err != nil {
		l.run.reports.resend(call.ends)
		return l.failed(call.err)
	}
	l.settled(call)
	l.failures = 0
	l.busy = len(call.answer.Jobs) >= call.requested
	if len(call.answer.Jobs) == 0 {
		if call.took < max(l.settings.wait/2, emptyPause) && len(call.ends) == 0 {
			l.notBefore = time.Now().Add(emptyPause)
		}
		return nil
	}
	l.settings.hooks.reserved(len(call.answer.Jobs))
	l.waiting = append(l.waiting, l.run.hold(call.answer)...)
	return nil
}

// settled handles the outcomes of the ends that a reserve has reported: first of acks, then of failures.
func (l *reserver) settled(call reserved) {
	if len(call.ends) == 0 {
		return
	}
	outcomes := append(call.answer.Acked[:len(call.answer.Acked):len(call.answer.Acked)], call.answer.Failed...)
	if len(outcomes) != len(call.ends) {
		l.run.reports.resend(call.ends)
		return
	}
	l.run.settler.outcomes(call.ends, outcomes)
	l.run.reports.settled(len(call.ends))
}

// failed plans the next reserve after an error.
func (l *reserver) failed(err error) error {
	l.settings.hooks.failed("reserve", err)
	if errors.Is(err, client.ErrAuth) {
		return err
	}
	delay := client.Backoff(reserveDelayFirst, reserveDelayLongest, l.failures)
	delay = max(delay, retryAfter(err))
	l.failures++
	l.notBefore = time.Now().Add(delay)
	l.settings.logger.Warn("failed to reserve jobs; trying again", "delay", delay, "error", err)
	return nil
}

// startWaiting starts the handlers of jobs that wait, as long as slots are free.
func (l *reserver) startWaiting() {
	for len(l.waiting) > 0 && int(l.run.running.Load()) < l.settings.slots {
		next := l.waiting[0]
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		if l.run.leases.begin(next, l.settings.maxRun) {
			l.run.start(next)
		} else {
			next.cancel(ErrLeaseLost)
		}
	}
}

// end gives back jobs that wait for a slot, and jobs of answers that arrive after the stop. Reserves that are not answered
// soon are cut.
func (l *reserver) end(cut context.CancelFunc) {
	defer cut()
	l.giveBackWaiting()
	timer := time.AfterFunc(lastAnswers, cut)
	defer timer.Stop()
	for ; l.calls > 0; l.calls-- {
		call := <-l.answers
		if call.err != nil {
			l.run.reports.resend(call.ends)
			continue
		}
		l.settled(call)
		l.waiting = l.run.hold(call.answer)
		l.giveBackWaiting()
	}
}

func (l *reserver) giveBackWaiting() {
	for _, h := range l.waiting {
		l.run.giveBack(h)
	}
	l.waiting = nil
}
