package worker

import (
	"context"
	"log/slog"
	"time"
)

// Option is a setting of a worker.
type Option func(*settings)

// Slots sets how many handlers run at the same time. Default: 64.
func Slots(slots int) Option { return func(s *settings) { s.slots = slots } }

// Prefetch sets how many jobs may wait in this process for a slot. Default: 0, so that no job waits here while another
// worker is free. With handlers that take less than about 10 ms, as many as there are slots keep the slots busy. The
// leases of jobs that wait are extended, and a stop gives them back at once.
func Prefetch(jobs int) Option { return func(s *settings) { s.prefetch = jobs } }

// Name sets the name with which the worker is listed together with the jobs that it holds: 1 to 128 bytes. Two workers
// with one name are listed as one. Default: HOST:PID.
func Name(name string) Option { return func(s *settings) { s.name = name } }

// Weights sets how often a queue is looked into first, compared with the others: 1 to 100. Default: all alike, in random
// order. Excludes [StrictOrder].
func Weights(weights map[string]int) Option { return func(s *settings) { s.weights = weights } }

// StrictOrder serves a queue only if all whose handlers were added before are empty. Excludes [Weights].
func StrictOrder() Option { return func(s *settings) { s.strict = true } }

// Lease sets the length of leases, 100 ms to 24 h: so long after the last sign of this worker its jobs are delivered to
// another one. Default: as the jobs or the policies of their queues say.
func Lease(length time.Duration) Option { return func(s *settings) { s.lease = length } }

// Wait sets how long a request for jobs waits at the server. Default: 20 s.
func Wait(wait time.Duration) Option { return func(s *settings) { s.wait = wait } }

// MaxRun sets how long a handler may run. Then its context ends with [ErrMaxRun], and its lease is not extended any more.
// Default: no limit.
func MaxRun(limit time.Duration) Option { return func(s *settings) { s.maxRun = limit } }

// Grace sets how long handlers may run after a stop by a signal or by the end of the context of Run. It should be shorter
// than the time after which the system kills the process. Default: 25 s.
func Grace(grace time.Duration) Option { return func(s *settings) { s.grace = grace } }

// WithoutSignals lets SIGTERM and SIGINT not stop the worker. End the context of Run, or call Stop, instead.
func WithoutSignals() Option { return func(s *settings) { s.signals = false } }

// Use adds middleware around all handlers. The first one is the outermost.
func Use(middleware ...Middleware) Option {
	return func(s *settings) { s.middleware = append(s.middleware, middleware...) }
}

// WithHooks sets functions that the worker calls, for metrics and logs.
func WithHooks(hooks Hooks) Option { return func(s *settings) { s.hooks = hooks } }

// Logger sets the logger. Default: slog.Default().
func Logger(logger *slog.Logger) Option { return func(s *settings) { s.logger = logger } }

// TraceContext sets a function that returns the context in which a handler runs, from the trace parent of the delivery
// (W3C Trace Context), or of the publish if the server does not trace deliveries. It is called only if there is one.
func TraceContext(hook func(ctx context.Context, traceParent string) context.Context) Option {
	return func(s *settings) { s.traceContext = hook }
}
