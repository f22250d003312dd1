package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// gate is a stub whose first request waits until it is opened.
type gate struct {
	*stub
	begun, open chan struct{}
}

func newGate(answer func(r stubRequest) *http.Response) *gate {
	g := &gate{begun: make(chan struct{}), open: make(chan struct{})}
	g.stub = &stub{answer: func(number int, r stubRequest) (*http.Response, error) {
		if number == 1 {
			close(g.begun)
			<-g.open
		}
		return answer(r), nil
	}}
	return g
}

// echo answers publishes with their payloads as ids. The payload "bad" makes a batch fail, and is refused alone; the
// payload "own" has a problem of its own.
func echo(r stubRequest) *http.Response {
	if !strings.HasSuffix(r.path, "/batch") {
		if r.body == `"bad"` {
			return response(400, `{"code":"invalid_body","applied":"no"}`)
		}
		return response(201, `{"id":`+r.body+`}`)
	}
	var batch struct {
		Jobs []struct {
			Payload string `json:"payload"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal([]byte(r.body), &batch); err != nil {
		return response(400, `{"code":"invalid_body","applied":"no"}`)
	}
	var results []string
	for _, job := range batch.Jobs {
		switch job.Payload {
		case "bad":
			return response(400, `{"code":"invalid_body","applied":"no"}`)
		case "own":
			results = append(results, `{"problem":{"status":409,"code":"queue_closed","applied":"no"}}`)
		default:
			results = append(results, `{"id":"`+job.Payload+`"}`)
		}
	}
	return response(200, `{"results":[`+strings.Join(results, ",")+`]}`)
}

// publishAll publishes the first payload, and the others while it is in flight. It returns the ids or errors.
func publishAll(t *testing.T, g *gate, payloads ...string) []string {
	t.Helper()
	c, _ := stubClient(t, g.stub)
	results := make([]string, len(payloads))
	var done sync.WaitGroup
	publish := func(i int) {
		defer done.Done()
		published, err := c.Queue("q").Publish(background, payloads[i])
		if err != nil {
			results[i] = CodeOf(err)
			return
		}
		results[i] = published.ID
	}
	done.Add(len(payloads))
	go publish(0)
	<-g.begun
	for i := range payloads[1:] {
		go publish(i + 1)
	}
	waitGathered(t, c, len(payloads)-1)
	close(g.open)
	done.Wait()
	return results
}

func waitGathered(t *testing.T, c *Client, count int) {
	t.Helper()
	for range 2000 {
		c.gatherers.mutex.Lock()
		waiting := len(c.gatherers.of[gathererKey{"q", true}].waiting)
		c.gatherers.mutex.Unlock()
		if waiting == count {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the publishes did not gather")
}

func TestPublishesThatMeetAreSentTogether(t *testing.T) {
	var payloads []string
	for i := range 250 {
		payloads = append(payloads, fmt.Sprint("job", i))
	}
	g := newGate(echo)
	results := publishAll(t, g, payloads...)
	if fmt.Sprint(results) != fmt.Sprint(payloads) {
		t.Error(results)
	}
	var sizes []int
	for _, r := range g.seen() {
		sizes = append(sizes, strings.Count(r.body, "job"))
	}
	// The word jobs of the body counts once.
	if fmt.Sprint(sizes) != "[1 101 101 50]" {
		t.Error(sizes)
	}
}

func TestOnePublishIsNoBatch(t *testing.T) {
	g := newGate(echo)
	if results := publishAll(t, g, "a", "b"); results[1] != "b" || strings.Contains(g.seen()[1].path, "batch") {
		t.Error(results, g.seen())
	}
}

func TestGatheredBytesAreLimited(t *testing.T) {
	large := strings.Repeat("x", 600<<10)
	g := newGate(echo)
	results := publishAll(t, g, "a", large, large)
	if len(g.seen()) != 3 || results[1] != large || results[2] != large {
		t.Error(len(g.seen()))
	}
}

func TestEachPublishHasItsOwnError(t *testing.T) {
	g := newGate(echo)
	results := publishAll(t, g, "a", "b", "own", "c")
	if fmt.Sprint(results) != "[a b queue_closed c]" || len(g.seen()) != 2 {
		t.Error(results, len(g.seen()))
	}
	g = newGate(echo)
	results = publishAll(t, g, "a", "b", "bad", "c")
	if fmt.Sprint(results) != "[a b invalid_body c]" {
		t.Error(results)
	}
	// The first one, the batch that is refused, and each job of it alone.
	if len(g.seen()) != 5 {
		t.Error(len(g.seen()))
	}
}

func TestPublishThatIsWithdrawnIsNotSent(t *testing.T) {
	g := newGate(echo)
	c, _ := stubClient(t, g.stub)
	first := make(chan error)
	go func() {
		_, err := c.Queue("q").Publish(background, "a")
		first <- err
	}()
	<-g.begun
	ctx, cancel := context.WithCancel(background)
	second := make(chan error)
	go func() {
		_, err := c.Queue("q").Publish(ctx, "b")
		second <- err
	}()
	waitGathered(t, c, 1)
	cancel()
	var failed *Error
	if err := <-second; !errors.As(err, &failed) || failed.Applied != AppliedNo || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(g.open)
	if err := <-first; err != nil || len(g.seen()) != 1 {
		t.Error(err, len(g.seen()))
	}
}

func TestPublishesDoNotWaitForRepetitions(t *testing.T) {
	s := answers(replyWith(503, unavailable), reply200(`{"id":"1"}`))
	c, _ := stubClient(t, s)
	repeating, open := make(chan struct{}), make(chan struct{})
	c.wait = func(context.Context, time.Duration) bool {
		close(repeating)
		<-open
		return true
	}
	first := make(chan error)
	go func() {
		_, err := c.Queue("q").Publish(background, "a")
		first <- err
	}()
	<-repeating
	ctx, cancel := context.WithTimeout(background, 10*time.Second)
	defer cancel()
	if _, err := c.Queue("q").Publish(ctx, "b"); err != nil {
		t.Error(err)
	}
	close(open)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if len(c.gatherers.of) != 0 {
		t.Error("a gatherer is left")
	}
}
