package worker

import (
	"context"
	"sync"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
)

const (
	// leasesMax is the most leases of one request.
	leasesMax = 1000
	// touchLimitMin is the shortest time that a touch may take.
	touchLimitMin = 100 * time.Millisecond
	touchLimitMax = 10 * time.Second
	// leaseMax is the longest lease. A granted lease may seem a little longer.
	leaseMax = 24 * time.Hour
)

// heartbeats extends the leases of the jobs that the worker holds when a third of each has passed.
type heartbeats struct {
	client   *client.Client
	leases   *leaseTable
	settings *settings
	// calls are the touches in flight. A slow one does not delay those of other leases.
	calls sync.WaitGroup
}

// run extends leases until the context ends. A lease that is not extended, since the server cannot be reached, is tried
// again until it has ended.
func (b *heartbeats) run(ctx context.Context) {
	defer b.calls.Wait()
	timer := time.NewTimer(b.leases.tick())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-b.leases.shortened:
			if !timer.Stop() {
				select {
				case <-timer.C:
				default:
				}
			}
		}
		b.extendDue(ctx)
		timer.Reset(b.leases.tick())
	}
}

func (b *heartbeats) extendDue(ctx context.Context) {
	for length, due := range b.leases.due(time.Now()) {
		for len(due) > 0 {
			part := due[:min(len(due), leasesMax)]
			due = due[len(part):]
			b.calls.Add(1)
			go func() {
				defer b.calls.Done()
				b.extend(ctx, part, length)
			}()
		}
	}
}

// extend extends leases of the same length.
func (b *heartbeats) extend(ctx context.Context, due []*held, length time.Duration) {
	defer b.leases.touched(due)
	leases := make([]string, len(due))
	for i, h := range due {
		leases[i] = h.job.Lease
	}
	// An answer that is late must leave time for another request.
	ctx, cancel := context.WithTimeout(ctx, min(max(length/3, touchLimitMin), touchLimitMax))
	defer cancel()
	sent := time.Now()
	outcomes, err := b.client.Touch(ctx, leases, min(length, leaseMax))
	if err != nil {
		b.settings.hooks.failed("touch", err)
		b.settings.logger.Warn("failed to extend leases; trying again", "jobs", len(due), "error", err)
		return
	}
	for i, outcome := range outcomes {
		b.apply(due[i], outcome, sent)
	}
}

func (b *heartbeats) apply(h *held, outcome client.Outcome, sent time.Time) {
	if outcome.Outcome != "extended" {
		b.leases.lose(h)
		return
	}
	b.leases.extend(h, sent)
	if outcome.CancelRequested {
		h.cancel(ErrCancelRequested)
	}
}
