// Command shop closes orders that are not paid in 30 minutes, and sends mails.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
	"github.com/tidegate/tidegate/clients/go/worker"
)

type closeOrder struct{ Order string }
type mail struct{ To []string }

var errBusy, errNoMailbox = errors.New("busy"), errors.New("no such mailbox")

func send(_ string) error { return nil } // Your mail server.

func work(ctx context.Context, c *client.Client) error {
	w := worker.New(c, worker.Grace(25*time.Second)) // SIGTERM stops it.
	worker.Handle(w, "close-unpaid", func(_ context.Context, task closeOrder) error { return nil })
	worker.Handle(w, "mails", func(ctx context.Context, task mail) error {
		for _, to := range task.To {
			switch err := send(to); {
			case ctx.Err() != nil: // Cancelled, lost, or the worker stops.
				return context.Cause(ctx)
			case errors.Is(err, errBusy):
				return worker.RetryIn(err, 30*time.Second)
			case errors.Is(err, errNoMailbox):
				return worker.Dead(err)
			}
		}
		return nil
	})
	return w.Run(ctx)
}

func main() {
	ctx := context.Background()
	c, err := client.New() // TIDEGATE_URL, TIDEGATE_KEY, TIDEGATE_NAMESPACE.
	if err != nil {
		log.Fatal(err)
	}
	orders, arguments := c.Queue("close-unpaid"), append(os.Args[1:], "", "")
	switch command, order := arguments[0], arguments[1]; command {
	case "placed":
		_, err = orders.Publish(ctx, closeOrder{order}, client.Key(order), client.Delay(30*time.Minute))
	case "paid":
		_, err = orders.JobWithKey(order).Cancel(ctx)
	default:
		err = work(ctx, c)
	}
	if err != nil {
		log.Fatal(err)
	}
}
