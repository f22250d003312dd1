package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"
)

const (
	contentTypeJSON = "application/json"
	// answerBytesMax is the largest answer that is read. A reserve of 256 jobs may have 256 MiB of payloads, which Base64
	// makes longer by a third.
	answerBytesMax = 512 << 20
	// connectionsMax is how many idle connections are kept open.
	connectionsMax = 256
)

// request is a request; its path follows the namespace.
type request struct {
	method string
	path   string
	header http.Header
	body   []byte
	// wait is how long the server may wait before it answers.
	wait time.Duration
	// safe says whether a repetition changes nothing that the request has changed already.
	safe bool
	// firstEnded is called when the first attempt has ended, if it is not nil.
	firstEnded func()
}

// reply is a success.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// get is a request that changes nothing.
func get(path string) *request {
	return &request{method: http.MethodGet, path: path, safe: true}
}

// jsonRequest is a request with a body of JSON.
func jsonRequest(method, path string, body any, safe bool) (*request, error) {
	encoded, err := marshal(body)
	if err != nil {
		return nil, invalid("", "failed to write JSON: %v", err)
	}
	header := http.Header{"Content-Type": {contentTypeJSON}}
	return &request{method: method, path: path, header: header, body: encoded, safe: safe}, nil
}

// decode reads the body as JSON.
func (r *reply) decode(into any) error {
	if err := json.Unmarshal(r.body, into); err != nil {
		return unreadable(r.status, err)
	}
	return nil
}

// fetch sends a request, and reads the answer as JSON.
func fetch[T any](ctx context.Context, c *Client, r *request) (T, error) {
	var value T
	answer, err := c.send(ctx, r)
	if err != nil {
		return value, err
	}
	return value, answer.decode(&value)
}

// fetchJSON sends a request with a body of JSON, and reads the answer as JSON.
func fetchJSON[T any](ctx context.Context, c *Client, method, path string, body any, safe bool) (T, error) {
	r, err := jsonRequest(method, path, body, safe)
	if err != nil {
		var none T
		return none, err
	}
	return fetch[T](ctx, c, r)
}

// defaultHTTPClient keeps its connections open between requests, as many as there are callers.
func defaultHTTPClient() *http.Client {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          connectionsMax,
		MaxIdleConnsPerHost:   connectionsMax,
		IdleConnTimeout:       60 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
	}
	return &http.Client{Transport: transport, CheckRedirect: noRedirect}
}

// noRedirect returns a redirect as an answer: a redirected request would lose its body or send the key to another host.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// sendOnce sends a request once. Answers other than a success are errors.
func (c *Client) sendOnce(ctx context.Context, r *request) (*reply, *Error) {
	limit := c.timeLimit + r.wait
	ctx, cancel := context.WithTimeoutCause(ctx, limit, noAnswer{limit})
	defer cancel()
	var connected atomic.Bool
	trace := httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	ready, err := c.prepare(httptrace.WithClientTrace(ctx, &trace), r)
	if err != nil {
		return nil, invalid("", "the request cannot be sent: %v", err)
	}
	answer, err := c.http.Do(ready)
	if err != nil {
		return nil, unanswered(ctx, err, connected.Load())
	}
	defer answer.Body.Close()
	body, err := readBody(answer)
	if err != nil {
		return nil, unanswered(ctx, err, true)
	}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return nil, rejection(answer.StatusCode, answer.Header, body)
	}
	return &reply{status: answer.StatusCode, header: answer.Header, body: body}, nil
}

func (c *Client) prepare(ctx context.Context, r *request) (*http.Request, error) {
	ready, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	for name, values := range r.header {
		ready.Header[name] = values
	}
	ready.Header["Authorization"] = c.authorization
	ready.Header["User-Agent"] = c.userAgent
	return ready, nil
}

func readBody(answer *http.Response) ([]byte, error) {
	var body bytes.Buffer
	if length := answer.ContentLength; length > 0 && length <= answerBytesMax {
		body.Grow(int(length) + bytes.MinRead)
	}
	read, err := body.ReadFrom(io.LimitReader(answer.Body, answerBytesMax+1))
	if err == nil && read > answerBytesMax {
		err = fmt.Errorf("the answer has more than %d MiB", answerBytesMax>>20)
	}
	return body.Bytes(), err
}

// unanswered is the error of a request without an answer. If there was no connection, nothing was sent.
func unanswered(ctx context.Context, err error, sent bool) *Error {
	applied := AppliedNo
	if sent {
		applied = AppliedUnknown
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		// The method and the URL are no news for the caller.
		err = wrapped.Err
	}
	var late noAnswer
	if cause := context.Cause(ctx); errors.As(cause, &late) {
		err = late
	} else if cause != nil {
		err = cause
	}
	return &Error{Class: ErrConnection, Detail: err.Error(), Applied: applied, cause: err}
}

// noAnswer is the cause that a request has taken longer than its time limit.
type noAnswer struct{ limit time.Duration }

func (n noAnswer) Error() string { return fmt.Sprintf("no answer within %v", n.limit) }

// Timeout makes it an error of time for callers that look for the interface of net.Error.
func (n noAnswer) Timeout() bool { return true }
