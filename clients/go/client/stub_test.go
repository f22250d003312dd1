package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// stub answers requests in memory, and remembers them.
type stub struct {
	mutex    sync.Mutex
	requests []stubRequest
	answer   func(number int, r stubRequest) (*http.Response, error)
}

type stubRequest struct {
	method, path string
	header       http.Header
	body         string
}

func (s *stub) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	seen := stubRequest{r.Method, r.URL.RequestURI(), r.Header, string(body)}
	s.mutex.Lock()
	s.requests = append(s.requests, seen)
	number := len(s.requests)
	s.mutex.Unlock()
	return s.answer(number, seen)
}

func (s *stub) seen() []stubRequest {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append([]stubRequest(nil), s.requests...)
}

// answers answers each request with the next function; the last one answers all that are left.
func answers(all ...func() (*http.Response, error)) *stub {
	return &stub{answer: func(number int, _ stubRequest) (*http.Response, error) {
		return all[min(number, len(all))-1]()
	}}
}

func reply200(body string) func() (*http.Response, error) { return replyWith(200, body) }

func replyWith(status int, body string, header ...string) func() (*http.Response, error) {
	return func() (*http.Response, error) { return response(status, body, header...), nil }
}

func response(status int, body string, header ...string) *http.Response {
	headers := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i+1 < len(header); i += 2 {
		headers.Set(header[i], header[i+1])
	}
	return &http.Response{
		StatusCode: status, Header: headers, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewBufferString(body)),
	}
}

// broken is an error before a connection: nothing was sent, since the stub reports no connection.
func broken() (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
}

const unavailable = `{"status":503,"code":"storage_unavailable","detail":"d","applied":"unknown"}`

// stubClient is a client of the stub whose pauses take no time. It also returns the pauses.
func stubClient(t *testing.T, s *stub, options ...Option) (*Client, *[]time.Duration) {
	t.Helper()
	options = append([]Option{
		WithURL("http://stub.invalid/"), WithKey("tg_A_B"), WithNamespace("shop"),
		WithHTTPClient(&http.Client{Transport: s, CheckRedirect: noRedirect}),
	}, options...)
	c, err := New(options...)
	if err != nil {
		t.Fatal(err)
	}
	var mutex sync.Mutex
	pauses := &[]time.Duration{}
	c.wait = func(ctx context.Context, d time.Duration) bool {
		mutex.Lock()
		defer mutex.Unlock()
		*pauses = append(*pauses, d)
		return ctx.Err() == nil
	}
	return c, pauses
}
