// Command driver is the program of the conformance suite of clients. It reads commands as lines of JSON, and writes
// answers and events as lines of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/tidegate/tidegate/clients/go/client"
)

// endStatus is the status of the process after the command end.
const endStatus = 9

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	c, err := client.New()
	if err != nil {
		return err
	}
	d := &driver{client: c, lines: &lineWriter{}}
	input := bufio.NewReader(os.Stdin)
	for {
		line, err := input.ReadBytes('\n')
		if len(line) > 1 {
			d.accept(line)
		}
		if err != nil {
			return nil
		}
	}
}

// driver carries out commands.
type driver struct {
	client *client.Client
	lines  *lineWriter
	mutex  sync.Mutex
	worker *runningWorker
}

// accept starts a command. The commands work and stop are about one worker, so they begin in order.
func (d *driver) accept(line []byte) {
	var c command
	if err := json.Unmarshal(line, &c); err != nil {
		d.lines.write(map[string]any{"id": c.ID, "error": unexpected(err)})
		return
	}
	switch c.Do {
	case "end":
		os.Exit(endStatus)
	case "work":
		ok, err := d.work(&c)
		d.answer(&c, ok, err)
	default:
		go func() {
			ok, err := d.carryOut(context.Background(), &c)
			d.answer(&c, ok, err)
		}()
	}
}

func (d *driver) answer(c *command, ok any, err error) {
	if err != nil {
		d.lines.write(map[string]any{"id": c.ID, "error": errorOf(err)})
		return
	}
	d.lines.write(map[string]any{"id": c.ID, "ok": ok})
}

// lineWriter writes lines of JSON to the standard output.
type lineWriter struct{ mutex sync.Mutex }

func (w *lineWriter) write(value any) {
	var line strings.Builder
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		fmt.Fprintln(os.Stderr, "failed to write a line:", err)
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if _, err := os.Stdout.WriteString(line.String()); err != nil {
		os.Exit(1)
	}
}

var classNames = []struct {
	class error
	name  string
}{
	{client.ErrAuth, "AuthError"},
	{client.ErrNotFound, "NotFoundError"},
	{client.ErrConflict, "ConflictError"},
	{client.ErrRateLimited, "RateLimitedError"},
	{client.ErrInvalidRequest, "InvalidRequestError"},
	{client.ErrServer, "ServerError"},
	{client.ErrConnection, "ConnectionError"},
}

func unexpected(err error) map[string]any {
	return map[string]any{"class": "Unexpected", "detail": err.Error()}
}

// errorOf writes an error as the suite reads it.
func errorOf(err error) map[string]any {
	var failed *client.Error
	if !errors.As(err, &failed) {
		return unexpected(err)
	}
	written := map[string]any{"detail": failed.Detail, "applied": failed.Applied}
	for _, known := range classNames {
		if failed.Class == known.class {
			written["class"] = known.name
		}
	}
	if failed.Status != 0 {
		written["status"] = failed.Status
	}
	if failed.Code != "" {
		written["code"] = failed.Code
	}
	if failed.Field != "" {
		written["field"] = failed.Field
	}
	if failed.RetryAfter != 0 {
		written["retry_after_ms"] = failed.RetryAfter.Milliseconds()
	}
	return written
}
