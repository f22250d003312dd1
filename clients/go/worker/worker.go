package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
)

const (
	defaultSlots = 64
	defaultWait  = 20 * time.Second
	defaultGrace = 25 * time.Second
	queuesMax    = 16
	weightMax    = 100
)

// Worker has a handler for each of its queues, up to 16, and runs them. Add the handlers before Run.
type Worker struct {
	client   *client.Client
	queues   []string
	handlers map[string]Handler
	settings settings
	err      error

	mutex   sync.Mutex
	stop    chan struct{}
	grace   time.Duration
	running bool
}

type settings struct {
	name         string
	slots        int
	prefetch     int
	weights      map[string]int
	strict       bool
	wait         time.Duration
	lease        time.Duration
	maxRun       time.Duration
	grace        time.Duration
	signals      bool
	middleware   []Middleware
	hooks        Hooks
	logger       *slog.Logger
	traceContext func(ctx context.Context, traceParent string) context.Context
}

// New makes a worker without handlers. A setting that is not valid is the error of [Worker.Run].
func New(c *client.Client, options ...Option) *Worker {
	w := &Worker{
		client:   c,
		handlers: make(map[string]Handler),
		stop:     make(chan struct{}),
		settings: settings{
			name:    defaultName(),
			slots:   defaultSlots,
			wait:    defaultWait,
			grace:   defaultGrace,
			signals: true,
			logger:  slog.Default(),
		},
	}
	for _, set := range options {
		set(&w.settings)
	}
	return w
}

// defaultName is unique among processes, and says where to look for the worker.
func defaultName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// HandleJob sets the handler of a queue that reads the payload itself. Its result is kept as long as the job is retained;
// the empty payload is no result. [Handle] and [HandleResult] read the payload as JSON.
func (w *Worker) HandleJob(queue string, handler Handler) {
	if _, twice := w.handlers[queue]; twice {
		w.fail(fmt.Errorf("worker: the queue %s has two handlers", queue))
		return
	}
	w.queues = append(w.queues, queue)
	w.handlers[queue] = handler
}

func (w *Worker) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// Run reserves jobs and runs their handlers until the worker is stopped: by the end of the context, by [Worker.Stop], or
// by SIGTERM or SIGINT (see [WithoutSignals]). A worker runs once.
//
// The stop: no more jobs are reserved. Handlers have the grace period to finish, and their leases are extended meanwhile.
// The contexts of the other handlers end, and their jobs are given back, which counts as no failure. Then all reports are
// sent, for up to 10 s. A second signal ends the process at once.
//
// It returns nil after a stop, and an error if the server rejects the API key (401, 403) or a setting is not valid. All
// other errors are repeated.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.start(); err != nil {
		return err
	}
	single, err := w.client.With(client.WithRepetitions(client.Repetitions{}))
	if err != nil {
		return err
	}
	if w.settings.signals {
		defer w.stopOnSignals()()
	}
	unwatch := context.AfterFunc(ctx, func() { w.Stop(w.settings.grace) })
	defer unwatch()
	return newRun(context.WithoutCancel(ctx), w, single).run()
}

// Stop begins the stop of the worker, and returns at once; Run returns when the worker has ended. Handlers have the grace
// period to finish. Only the first call counts.
func (w *Worker) Stop(grace time.Duration) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	select {
	case <-w.stop:
	default:
		w.grace = grace
		close(w.stop)
	}
}

// stopGrace is the grace period of the stop that has begun.
func (w *Worker) stopGrace() time.Duration {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	select {
	case <-w.stop:
		return w.grace
	default:
		return w.settings.grace
	}
}

func (w *Worker) start() error {
	if w.err != nil {
		return w.err
	}
	if err := w.check(); err != nil {
		return err
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.running {
		return errors.New("worker: it has run already; make another one")
	}
	w.running = true
	return nil
}

func (w *Worker) check() error {
	if count := len(w.queues); count < 1 || count > queuesMax {
		return fmt.Errorf("worker: it has handlers for 1 to %d queues, not %d", queuesMax, count)
	}
	if w.settings.slots < 1 || w.settings.prefetch < 0 {
		return errors.New("worker: it has at least one slot, and a prefetch of at least 0")
	}
	if w.settings.strict && len(w.settings.weights) > 0 {
		return errors.New("worker: Weights and StrictOrder exclude each other")
	}
	for queue, weight := range w.settings.weights {
		if _, has := w.handlers[queue]; !has {
			return fmt.Errorf("worker: the queue %s has a weight, but no handler", queue)
		}
		if weight < 1 || weight > weightMax {
			return fmt.Errorf("worker: the weight of a queue is 1 to %d, not %d", weightMax, weight)
		}
	}
	return nil
}

// choices are the queues as a reserve names them.
func (w *Worker) choices() []client.QueueWeight {
	choices := make([]client.QueueWeight, len(w.queues))
	for i, queue := range w.queues {
		choices[i] = client.QueueWeight{Queue: queue, Weight: w.settings.weights[queue]}
	}
	return choices
}
