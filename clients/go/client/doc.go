// Package client publishes jobs to Tidegate, a delay-queue service over Redis, and manages jobs, queues, schedules and
// API keys. The package worker runs handlers for jobs.
//
//	c, err := client.New(client.WithURL("http://127.0.0.1:7777"), client.WithKey(key), client.WithNamespace("shop"))
//	if err != nil {
//		return err
//	}
//	job, err := c.Queue("close-unpaid").Publish(ctx, CloseOrder{Order: 17},
//		client.Delay(30*time.Minute), client.Key("order-17"))
//
// A [Client] is safe for concurrent use, and keeps one pool of connections. All requests take a context. Each attempt of
// a request also has a time limit, 10 s by default, in addition to the time that it asks the server to wait.
//
// Errors of requests are of the type [*Error]. Compare them with [ErrNotFound], [ErrConflict] and the other classes by
// errors.Is, or read [Error.Code] after errors.As.
//
// Durations are sent in whole milliseconds, instants in milliseconds since 1970. Fractions of a millisecond are rounded
// up.
package client

// Version is the version of this module, which requests name in their header User-Agent.
const Version = "0.1.0"
