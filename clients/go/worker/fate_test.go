package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
)

func aborted(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

func TestErrorsSayWhatBecomesOfTheJob(t *testing.T) {
	running := context.Background()
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		ctx  context.Context
		err  error
		want end
	}{
		"error":            {running, boom, end{kind: failed, text: "boom"}},
		"dead":             {running, Dead(boom), end{kind: failed, text: "boom", dead: true}},
		"dead, wrapped":    {running, fmt.Errorf("x: %w", Dead(boom)), end{kind: failed, text: "x: boom", dead: true}},
		"dead without err": {running, Dead(nil), end{kind: failed, text: "unknown error", dead: true}},
		"snooze":           {running, Snooze(time.Minute), end{kind: released, text: "snoozed for 1m0s", delay: time.Minute}},
		"max run":          {aborted(ErrMaxRun), context.Canceled, end{kind: failed, text: ErrMaxRun.Error()}},
		"own error":        {aborted(ErrMaxRun), boom, end{kind: failed, text: "boom"}},
		"stopping":         {aborted(ErrStopping), context.Canceled, end{kind: released}},
		"stopping, dead":   {aborted(ErrStopping), Dead(boom), end{kind: failed, text: "boom", dead: true}},
	} {
		got := endOf(test.ctx, test.err)
		if got.kind != test.want.kind || got.text != test.want.text || got.dead != test.want.dead || got.delay != test.want.delay {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := endOf(running, RetryIn(boom, time.Second)); got.retryIn == nil || *got.retryIn != time.Second {
		t.Errorf("%+v", got)
	}
	if got := endOf(running, RetryIn(boom, -time.Second)); *got.retryIn != 0 {
		t.Errorf("%+v", got)
	}
	long := end{held: &held{job: &Job{}}, text: strings.Repeat("x", errorBytesMax-1) + "ü"}
	if text := long.fail().Error; len(text) != errorBytesMax-1 {
		t.Errorf("%d bytes", len(text))
	}
	if !errors.Is(Dead(boom), boom) {
		t.Error("the cause is not kept")
	}
}

func TestLeases(t *testing.T) {
	table := newLeaseTable()
	now := time.Now()
	hold := func(length time.Duration) *held {
		h := &held{length: length, extended: now, expires: now.Add(length)}
		h.ctx, h.cancel = context.WithCancelCause(context.Background())
		return h
	}
	long, short := hold(time.Minute), hold(time.Second)
	table.insert([]*held{long, short})
	if table.tick() != time.Second/ticksPerLease {
		t.Error(table.tick())
	}
	due := table.due(now.Add(400 * time.Millisecond))
	if len(due) != 1 || due[time.Second][0] != short {
		t.Error(due)
	}
	if len(table.due(now.Add(450*time.Millisecond))) != 0 {
		t.Error("two requests extend one lease at the same time")
	}
	table.touched(due[time.Second])
	if len(table.due(now.Add(450*time.Millisecond))) != 1 {
		t.Error("a lease that was not extended is not tried again")
	}
	table.extend(short, now.Add(400*time.Millisecond))
	table.touched(due[time.Second])
	if len(table.due(now.Add(700*time.Millisecond))) != 0 {
		t.Error("it was extended")
	}
	table.due(now.Add(1400 * time.Millisecond))
	if context.Cause(short.ctx) != ErrLeaseLost {
		t.Error("the lease has ended")
	}
	if _, has := table.remove(short); has {
		t.Error("the end of a job whose lease is lost is reported")
	}
	if !table.begin(long, time.Second) || len(table.due(now.Add(30*time.Second))) != 0 {
		t.Error("the lease is extended for longer than the handler may run")
	}
}

func TestBatchesOfReportsAreLimited(t *testing.T) {
	small, large := make([]end, leasesMax+1), make([]end, 3)
	for i := range large {
		large[i].result.Data = make([]byte, reportBytesMax*2/3)
	}
	huge := []end{{result: client.Payload{Data: make([]byte, reportBytesMax+1)}}}
	for _, test := range []struct {
		ends []end
		want int
	}{{small, leasesMax}, {large, 1}, {huge, 1}, {small[:5], 5}} {
		if got := batchSize(test.ends); got != test.want {
			t.Errorf("%d, not %d", got, test.want)
		}
	}
}
