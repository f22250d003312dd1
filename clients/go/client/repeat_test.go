package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

var background = context.Background()

func TestDelaysAreDoubledAndMadeLonger(t *testing.T) {
	s := answers(replyWith(503, unavailable))
	c, pauses := stubClient(t, s)
	_, err := c.Queue("q").Counts(background)
	if !errors.Is(err, ErrServer) || CodeOf(err) != "storage_unavailable" {
		t.Fatal(err)
	}
	if len(*pauses) != 7 || len(s.seen()) != 8 {
		t.Fatalf("%d pauses, %d requests", len(*pauses), len(s.seen()))
	}
	for i, pause := range *pauses {
		least := min(100*time.Millisecond<<i, 5*time.Second)
		if pause < least || pause > 2*least {
			t.Errorf("pause %d is %v, not %v to %v", i, pause, least, 2*least)
		}
	}
}

func TestRetryAfterIsWaitedForUpTo30Seconds(t *testing.T) {
	for _, test := range []struct {
		header string
		least  time.Duration
		pauses int
	}{{"20", 20 * time.Second, 1}, {"30", 30 * time.Second, 1}, {"31", 0, 0}, {"", 100 * time.Millisecond, 1}} {
		s := answers(replyWith(503, unavailable, "Retry-After", test.header), reply200(`{}`))
		c, pauses := stubClient(t, s)
		_, err := c.Queue("q").Counts(background)
		if (err == nil) != (test.pauses == 1) || len(*pauses) != test.pauses {
			t.Errorf("%q: %v, pauses %v", test.header, err, *pauses)
			continue
		}
		if test.pauses == 1 && (*pauses)[0] < test.least {
			t.Errorf("%q: pause %v", test.header, (*pauses)[0])
		}
	}
	date := http.Header{"Retry-After": {time.Unix(1000, 0).UTC().Format(http.TimeFormat)}}
	if after := retryAfter(date, time.Unix(990, 0)); after != 10*time.Second {
		t.Error(after)
	}
}

func TestWhatIsRepeated(t *testing.T) {
	problem := func(status int, applied string) func() (*http.Response, error) {
		return replyWith(status, `{"code":"c","applied":"`+applied+`"}`)
	}
	for name, test := range map[string]struct {
		first        func() (*http.Response, error)
		safe, unsafe bool
	}{
		"503 unknown":      {problem(503, "unknown"), true, false},
		"503 no":           {problem(503, "no"), true, true},
		"504 yes":          {problem(504, "yes"), false, false},
		"408 no":           {problem(408, "no"), true, true},
		"429":              {problem(429, "no"), false, false},
		"500":              {problem(500, "unknown"), false, false},
		"507":              {problem(507, "no"), false, false},
		"404":              {problem(404, "no"), false, false},
		"502 of a proxy":   {replyWith(502, "<html>"), true, false},
		"nothing was sent": {broken, true, true},
	} {
		for _, safe := range []bool{true, false} {
			s := answers(test.first, reply200(`{"id":"1"}`))
			c, _ := stubClient(t, s)
			var option PublishOption = Idempotent(false)
			if safe {
				option = IdempotencyKey("k")
			}
			_, err := c.Queue("q").Publish(background, 1, option)
			repeated := len(s.seen()) > 1
			if want := safe && test.safe || !safe && test.unsafe; repeated != want || (err == nil) != want {
				t.Errorf("%s, safe %v: repeated %v, %v", name, safe, repeated, err)
			}
		}
	}
}

func TestLostAnswerIsNotHiddenByTheLastError(t *testing.T) {
	taken := replyWith(409, `{"code":"key_taken","applied":"no"}`)
	c, _ := stubClient(t, answers(replyWith(503, unavailable), taken))
	_, err := c.Queue("q").Publish(background, 1, Key("k"))
	var failed *Error
	if !errors.As(err, &failed) || failed.Applied != AppliedUnknown || failed.Code != "storage_unavailable" {
		t.Error(err)
	}
	missing := replyWith(404, `{"code":"job_not_found","applied":"no"}`)
	c, _ = stubClient(t, answers(replyWith(503, unavailable), missing))
	if _, err := c.Queue("q").JobWithKey("k").Cancel(background); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestRandomIdempotencyKeyStaysTheSame(t *testing.T) {
	s := answers(replyWith(503, unavailable), reply200(`{"id":"1"}`))
	c, _ := stubClient(t, s)
	if _, err := c.Queue("q").Publish(background, 1); err != nil {
		t.Fatal(err)
	}
	seen := s.seen()
	first, second := seen[0].header.Get("Idempotency-Key"), seen[1].header.Get("Idempotency-Key")
	if len(first) != 32 || first != second {
		t.Errorf("%q, %q", first, second)
	}
}

func TestConnectionErrors(t *testing.T) {
	ended := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	defer slow.Close()
	defer close(ended)
	closed := httptest.NewServer(nil)
	closed.Close()
	for name, test := range map[string]struct {
		url     string
		applied Applied
	}{"no answer in time": {slow.URL, AppliedUnknown}, "no connection": {closed.URL, AppliedNo}} {
		c, err := New(WithURL(test.url), WithKey("k"), WithNamespace("n"), WithTimeLimit(50*time.Millisecond),
			WithRepetitions(Repetitions{}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Queue("q").Publish(background, 1)
		var failed *Error
		if !errors.As(err, &failed) || !errors.Is(err, ErrConnection) || failed.Applied != test.applied || failed.Status != 0 {
			t.Errorf("%s: %#v", name, err)
		}
		if name == "no answer in time" && failed.Detail != "no answer within 50ms" {
			t.Error(failed.Detail)
		}
		var network net.Error
		if name == "no connection" && !errors.As(err, &network) {
			t.Errorf("%s: the cause is not kept: %v", name, err)
		}
	}
}

func TestContextEndsRepetitions(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	c, _ := stubClient(t, answers(replyWith(503, unavailable)))
	c.wait = func(ctx context.Context, d time.Duration) bool {
		cancel()
		return sleep(ctx, d)
	}
	_, err := c.Queue("q").Counts(ctx)
	if !errors.Is(err, context.Canceled) || CodeOf(err) != "storage_unavailable" {
		t.Error(err)
	}
}

func TestClasses(t *testing.T) {
	for _, test := range []struct {
		status int
		code   string
		class  error
	}{
		{401, "key_invalid", ErrAuth}, {403, "scope_missing", ErrAuth}, {404, "job_not_found", ErrNotFound},
		{409, "key_taken", ErrConflict}, {412, "version_mismatch", ErrConflict},
		{422, "idempotency_key_reused", ErrConflict}, {422, "other", ErrInvalidRequest}, {429, "queue_full", ErrRateLimited},
		{400, "invalid_body", ErrInvalidRequest}, {413, "body_too_large", ErrInvalidRequest}, {507, "storage_full", ErrServer},
	} {
		c, _ := stubClient(t, answers(replyWith(test.status, `{"code":"`+test.code+`","field":"f","applied":"no"}`)))
		_, err := c.Queue("q").Counts(background)
		var failed *Error
		if !errors.As(err, &failed) || !errors.Is(err, test.class) || failed.Field != "f" || failed.Status != test.status {
			t.Errorf("%d %s: %v", test.status, test.code, err)
		}
	}
}

func TestOtherRequestsThatAreRepeated(t *testing.T) {
	for name, test := range map[string]struct {
		send func(c *Client) error
		safe bool
	}{
		"act": {func(c *Client) error {
			_, err := c.Queue("q").Act(background, ActPromote(), JobFilter{})
			return err
		}, true},
		"purge":   {func(c *Client) error { _, err := c.Queue("q").Purge(background, Dead); return err }, false},
		"respawn": {func(c *Client) error { _, err := c.Queue("q").Respawn(background, Respawn{}); return err }, false},
		"key":     {func(c *Client) error { _, err := c.CreateKey(background, NewAPIKey{}); return err }, false},
		"revoke":  {func(c *Client) error { return c.RevokeKey(background, "k") }, true},
	} {
		s := answers(replyWith(503, unavailable), reply200(`{}`))
		c, _ := stubClient(t, s)
		err := test.send(c)
		if repeated := len(s.seen()) > 1; repeated != test.safe || (err == nil) != test.safe {
			t.Errorf("%s: repeated %v, %v", name, repeated, err)
		}
	}
}
