package worker_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
	"github.com/tidegate/tidegate/clients/go/tidegatetest"
	"github.com/tidegate/tidegate/clients/go/worker"
)

// transport is a function that answers requests.
type transport func(r *http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func clientOf(t *testing.T, fake *tidegatetest.Fake, answer transport) *client.Client {
	t.Helper()
	c, err := fake.Client().With(client.WithHTTPClient(&http.Client{Transport: answer}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStopGivesBackJobsOfLateAnswers(t *testing.T) {
	fake := tidegatetest.NewFake()
	publish(t, fake.Client(), task{1})
	leased := make(chan struct{}, 1)
	c := clientOf(t, fake, func(r *http.Request) (*http.Response, error) {
		answer, err := fake.RoundTrip(r)
		if !strings.HasSuffix(r.URL.Path, "/reserve") {
			return answer, err
		}
		select {
		case leased <- struct{}{}:
		default:
		}
		select {
		case <-time.After(50 * time.Millisecond):
			return answer, err
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	})
	w := newWorker(c)
	worker.Handle(w, queue, func(context.Context, task) error {
		t.Error("a handler was started after the stop")
		return nil
	})
	stop := start(t, w)
	<-leased
	stop()
	if job := fake.Jobs(queue)[0]; job.State != client.Ready {
		t.Errorf("%+v", job)
	}
}

func TestStopCutsReservesThatWait(t *testing.T) {
	fake := tidegatetest.NewFake()
	waiting := make(chan struct{}, 1)
	c := clientOf(t, fake, func(r *http.Request) (*http.Response, error) {
		waiting <- struct{}{}
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	w := newWorker(c, worker.Wait(time.Hour))
	worker.Handle(w, queue, func(context.Context, task) error { return nil })
	stop := start(t, w)
	<-waiting
	begun := time.Now()
	stop()
	if took := time.Since(begun); took > 5*time.Second {
		t.Error(took)
	}
}

// A result that the server refuses makes its job dead, and the other jobs of the batch are done.
func TestRefusedResultKeepsNoOtherFromBeingReported(t *testing.T) {
	fake := tidegatetest.NewFake()
	const jobs, bad = 20, 13
	for i := range jobs {
		publish(t, fake.Client(), task{int64(i)})
	}
	c := clientOf(t, fake, func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if bytes.Contains(body, []byte(`"refused"`)) {
			return problemAnswer(400, "invalid_body")()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		return fake.RoundTrip(r)
	})
	w := newWorker(c)
	worker.HandleResult(w, queue, func(_ context.Context, task task) (string, error) {
		if task.ID == bad {
			return "refused", nil
		}
		return "taken", nil
	})
	stop := start(t, w)
	eventually(t, "all jobs are reported", func() bool {
		for _, job := range fake.Jobs(queue) {
			if job.State != client.Done && job.State != client.Dead {
				return false
			}
		}
		return true
	})
	stop()
	for i, job := range fake.Jobs(queue) {
		if dead := job.State == client.Dead; dead != (i == bad) {
			t.Errorf("%d: %s %s", i, job.State, job.LastError)
		}
	}
}

func TestHookIsCalledAfterAPanic(t *testing.T) {
	fake := tidegatetest.NewFake()
	c := fake.Client()
	var begun, ended atomic.Int64
	w := newWorker(c, worker.WithHooks(worker.Hooks{
		Started: func(context.Context, *worker.Job) { begun.Add(1) },
		Ended: func(_ context.Context, _ *worker.Job, err error, _ time.Duration) {
			if err == nil {
				t.Error("no error")
			}
			ended.Add(1)
		},
	}))
	worker.Handle(w, queue, func(context.Context, task) error { panic("oh") })
	publish(t, c, task{1})
	if _, err := fake.RunDue(background, w); err != nil {
		t.Fatal(err)
	}
	if begun.Load() != 1 || ended.Load() != 1 {
		t.Error(begun.Load(), ended.Load())
	}
	if job := fake.Jobs(queue)[0]; job.LastError != "the handler panicked: oh" {
		t.Error(job.LastError)
	}
}
