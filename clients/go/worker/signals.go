package worker

import (
	"os"
	"os/signal"
	"syscall"
)

// stopOnSignals stops the worker on the first signal. Then the signals have their usual effect again: a second one ends
// the process at once. The function that it returns ends the watch.
func (w *Worker) stopOnSignals() func() {
	signals := make(chan os.Signal, 1)
	ended := make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		select {
		case received := <-signals:
			signal.Stop(signals)
			w.settings.logger.Info("the worker stops", "signal", received.String())
			w.Stop(w.settings.grace)
		case <-ended:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
	}
}
