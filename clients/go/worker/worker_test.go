package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
	"github.com/tidegate/tidegate/clients/go/tidegatetest"
	"github.com/tidegate/tidegate/clients/go/worker"
)

const queue = "q"

var background = context.Background()

// start runs a worker on a fake. It returns the outcomes that the server has answered, and a function that stops it.
func start(t *testing.T, w *worker.Worker) (stop func()) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(background) }()
	return func() {
		t.Helper()
		w.Stop(5 * time.Second)
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the worker did not end")
		}
	}
}

func newWorker(c *client.Client, options ...worker.Option) *worker.Worker {
	silent := slog.New(slog.NewTextHandler(io.Discard, nil))
	options = append([]worker.Option{worker.WithoutSignals(), worker.Logger(silent), worker.Wait(time.Millisecond)}, options...)
	return worker.New(c, options...)
}

func publish(t *testing.T, c *client.Client, payload any, options ...client.PublishOption) string {
	t.Helper()
	job, err := c.Queue(queue).Publish(background, payload, options...)
	if err != nil {
		t.Fatal(err)
	}
	return job.ID
}

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for range 5000 {
		if condition() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

type task struct {
	ID int64 `json:"id"`
}

func TestEachJobRunsOnce(t *testing.T) {
	fake := tidegatetest.NewFake()
	c := fake.Client()
	const jobs = 300
	for i := range jobs {
		publish(t, c, task{int64(i)})
	}
	var seen sync.Map
	var reported atomic.Int64
	w := newWorker(c, worker.Slots(7), worker.Prefetch(3), worker.WithHooks(worker.Hooks{
		Reported: func(_ *worker.Job, outcome string) {
			if outcome == "done" {
				reported.Add(1)
			}
		},
	}))
	worker.Handle(w, queue, func(_ context.Context, task task) error {
		if _, twice := seen.LoadOrStore(task.ID, true); twice {
			t.Error("twice", task.ID)
		}
		return nil
	})
	stop := start(t, w)
	eventually(t, "all jobs are reported", func() bool { return reported.Load() == jobs })
	stop()
	if waiting := fake.Waiting(queue); len(waiting) != 0 {
		t.Error(waiting)
	}
}

func TestResultsAndFailures(t *testing.T) {
	fake := tidegatetest.NewFake()
	c := fake.Client()
	w := newWorker(c)
	worker.HandleResult(w, queue, func(ctx context.Context, task task) (any, error) {
		switch task.ID {
		case 1:
			return task, nil
		case 2:
			panic("oh")
		case 3:
			runtime.Goexit()
		case 4:
			return make(chan int), nil
		}
		return worker.JobOf(ctx).Attempt, nil
	})
	for i := range 5 {
		publish(t, c, task{int64(i)})
	}
	publish(t, c, "no task")
	stop := start(t, w)
	eventually(t, "all jobs have ended", func() bool {
		ended := 0
		for _, job := range fake.Jobs(queue) {
			if job.State != client.Leased && job.Attempt > 0 {
				ended++
			}
		}
		return ended == 6
	})
	stop()
	jobs := fake.Jobs(queue)
	for i, want := range []struct {
		state client.State
		text  string
	}{
		{client.Done, ""}, {client.Done, ""}, {client.Delayed, "the handler panicked: oh"},
		{client.Delayed, "the handler has ended its goroutine"}, {client.Dead, "failed to write the payload as JSON"},
		{client.Dead, "the payload is not a task of the queue q"},
	} {
		if jobs[i].State != want.state || !strings.Contains(jobs[i].LastError, want.text) {
			t.Errorf("%d: %s %q", i, jobs[i].State, jobs[i].LastError)
		}
	}
	if string(jobs[0].Result.Data) != "1" || string(jobs[1].Result.Data) != `{"id":1}` {
		t.Errorf("%s %s", jobs[0].Result.Data, jobs[1].Result.Data)
	}
}

func TestStopGivesJobsBack(t *testing.T) {
	fake := tidegatetest.NewFake()
	c := fake.Client()
	begun, causes := make(chan struct{}, 2), make(chan error, 2)
	w := newWorker(c, worker.Slots(1), worker.Prefetch(1))
	worker.Handle(w, queue, func(ctx context.Context, _ task) error {
		begun <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	publish(t, c, task{1})
	publish(t, c, task{2})
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(background)
	go func() { ended <- w.Run(ctx) }()
	<-begun
	eventually(t, "both jobs are leased", func() bool { return len(fake.Waiting(queue)) == 0 })
	w.Stop(10 * time.Millisecond)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if cause := <-causes; cause != worker.ErrStopping {
		t.Error(cause)
	}
	for _, job := range fake.Jobs(queue) {
		if job.State != client.Ready || job.Failures != 0 {
			t.Errorf("%+v", job)
		}
	}
}

func TestMiddlewareAndTraceContext(t *testing.T) {
	type key struct{}
	fake := tidegatetest.NewFake()
	c, err := fake.Client().With(client.WithTraceParent(func(context.Context) string { return "00-1-2-01" }))
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	wrap := func(name string) worker.Middleware {
		return func(next worker.Handler) worker.Handler {
			return func(ctx context.Context, job *worker.Job) (client.Payload, error) {
				order = append(order, name)
				return next(ctx, job)
			}
		}
	}
	w := newWorker(c, worker.Use(wrap("outer"), wrap("inner")), worker.TraceContext(
		func(ctx context.Context, parent string) context.Context { return context.WithValue(ctx, key{}, parent) },
	))
	worker.Handle(w, queue, func(ctx context.Context, _ any) error {
		order = append(order, ctx.Value(key{}).(string))
		return nil
	})
	publish(t, c, 1)
	if count, err := fake.RunDue(background, w); count != 1 || err != nil {
		t.Fatal(count, err)
	}
	if got := strings.Join(order, " "); got != "outer inner 00-1-2-01" {
		t.Error(got)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	c := tidegatetest.NewFake().Client()
	none := func(context.Context, task) error { return nil }
	twice := newWorker(c)
	worker.Handle(twice, queue, none)
	worker.Handle(twice, queue, none)
	noSlots := newWorker(c, worker.Slots(0))
	worker.Handle(noSlots, queue, none)
	weights := newWorker(c, worker.Weights(map[string]int{"other": 1}))
	worker.Handle(weights, queue, none)
	strict := newWorker(c, worker.StrictOrder(), worker.Weights(map[string]int{queue: 1}))
	worker.Handle(strict, queue, none)
	for name, w := range map[string]*worker.Worker{
		"no queue": newWorker(c), "twice": twice, "slots": noSlots, "weights": weights, "strict": strict,
	} {
		if err := w.Run(background); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// outage is a transport that answers with errors until it is over.
type outage struct {
	fake *tidegatetest.Fake
	left atomic.Int64
	fail func() (*http.Response, error)
	path string
}

func (o *outage) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, o.path) && o.left.Add(-1) >= 0 {
		return o.fail()
	}
	return o.fake.RoundTrip(r)
}

func problemAnswer(status int, code string) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		text, err := json.Marshal(map[string]any{"status": status, "code": code, "applied": "no"})
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(text)))}, err
	}
}

func outageClient(t *testing.T, o *outage) *client.Client {
	t.Helper()
	c, err := o.fake.Client().With(client.WithHTTPClient(&http.Client{Transport: o}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReserveIsRepeatedAndAuthEndsTheWorker(t *testing.T) {
	for _, test := range []struct {
		status int
		code   string
		ends   bool
	}{{401, "key_invalid", true}, {403, "scope_missing", true}, {500, "internal_error", false}, {404, "route_not_found", false}} {
		o := &outage{fake: tidegatetest.NewFake(), fail: problemAnswer(test.status, test.code), path: "/reserve"}
		o.left.Store(1)
		c := outageClient(t, o)
		publish(t, c, task{1})
		w := newWorker(c)
		ran := make(chan struct{})
		worker.Handle(w, queue, func(context.Context, task) error { close(ran); return nil })
		if test.ends {
			if err := w.Run(background); !errors.Is(err, client.ErrAuth) {
				t.Errorf("%d: %v", test.status, err)
			}
			continue
		}
		stop := start(t, w)
		select {
		case <-ran:
		case <-time.After(5 * time.Second):
			t.Errorf("%d: the reserve was not repeated", test.status)
		}
		stop()
	}
}

func TestReportsAreRepeated(t *testing.T) {
	for _, path := range []string{"/ack", "/reserve"} {
		o := &outage{fake: tidegatetest.NewFake(), path: path, fail: func() (*http.Response, error) {
			return nil, errors.New("broken")
		}}
		c := outageClient(t, o)
		w := newWorker(c)
		worker.Handle(w, queue, func(context.Context, task) error { o.left.Store(2); return nil })
		publish(t, c, task{1})
		stop := start(t, w)
		eventually(t, "the job is done", func() bool { return o.fake.Jobs(queue)[0].State == client.Done })
		stop()
	}
}
