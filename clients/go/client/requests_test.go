package client

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestPathsOfJobs(t *testing.T) {
	for key, path := range map[string]string{
		"order-17": "/v1/shop/queues/q/jobs/key:order%2D17",
		"a/b &c":   "/v1/shop/queues/q/jobs/-?key=a%2Fb%20%26c",
		"Zürich 1": "/v1/shop/queues/q/jobs/key:Z%C3%BCrich%201",
		"..":       "/v1/shop/queues/q/jobs/key:%2E%2E",
		"%2F?#":    "/v1/shop/queues/q/jobs/key:%252F%3F%23",
	} {
		s := answers(reply200(`{}`))
		c, _ := stubClient(t, s)
		if _, err := c.Queue("q").JobWithKey(key).Show(background); err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(path, "%2D", "-")
		if got := s.seen()[0].path; got != want {
			t.Errorf("%q: %s", key, got)
		}
	}
	s := answers(reply200(`{}`))
	c, _ := stubClient(t, s)
	if _, err := c.Queue("q").JobWithKey("a/b").Cancel(background, Running(Ask)); err != nil {
		t.Fatal(err)
	}
	if got := s.seen()[0]; got.path != "/v1/shop/queues/q/jobs/-?key=a%2Fb&running=ask" || got.method != "DELETE" {
		t.Error(got)
	}
}

func TestOptionsOfPublish(t *testing.T) {
	s := answers(reply200(`{"id":"1"}`))
	c, _ := stubClient(t, s)
	_, err := c.Queue("q").Publish(background, Bytes([]byte("x"), "text/plain"),
		Delay(1500*time.Microsecond), Key("a/b &c"), IfExists(Reject), Retry(RetryPolicy{Every: 5 * time.Second}),
		Priority(3), Retain(90*time.Minute), Attribute("tenant", "blü"), Durability("fsync+replica:1"),
	)
	if err != nil {
		t.Fatal(err)
	}
	got := s.seen()[0]
	want := "/v1/shop/queues/q/jobs?delay=2ms&key=a%2Fb%20%26c&if_exists=reject&retry=%7B%22every%22%3A%225s%22%7D" +
		"&priority=3&retain=1h30m&durability=fsync%2Breplica%3A1"
	if got.path != want {
		t.Error(got.path)
	}
	if got.header.Get("Content-Type") != "text/plain" || got.header.Get("User-Agent") != "tidegate-go/"+Version {
		t.Error(got.header)
	}
	if values := got.header["Job-Attr-tenant"]; len(values) != 1 || values[0] != "blü" {
		t.Error(got.header)
	}
	if len(got.header.Get("Idempotency-Key")) != 32 {
		t.Error("a publish that may be rejected has no idempotency key")
	}
}

func TestPayloads(t *testing.T) {
	for _, test := range []struct {
		payload    any
		body, kind string
	}{
		{map[string]any{"html": "<&>", "id": int64(math.MaxInt64)}, `{"html":"<&>","id":9223372036854775807}`, contentTypeJSON},
		{json.RawMessage(`{"n":9007199254740993}`), `{"n":9007199254740993}`, contentTypeJSON},
		{nil, "null", contentTypeJSON},
		{[]byte{0, 255}, "\x00\xff", contentTypeBytes},
		{Bytes(nil, "text/plain"), "", "text/plain"},
	} {
		s := answers(reply200(`{"id":"1"}`))
		c, _ := stubClient(t, s)
		if _, err := c.Queue("q").Publish(background, test.payload); err != nil {
			t.Fatal(err)
		}
		if got := s.seen()[0]; got.body != test.body || got.header.Get("Content-Type") != test.kind {
			t.Errorf("%v: %q %v", test.payload, got.body, got.header)
		}
	}
	var value any
	payload := Bytes([]byte(`{"n":9007199254740993}`), contentTypeJSON)
	if err := payload.Decode(&value); err != nil || value.(map[string]any)["n"].(json.Number) != "9007199254740993" {
		t.Error(value, err)
	}
	if err := Bytes([]byte("1 2"), contentTypeJSON).Decode(&value); err == nil {
		t.Error("two values are no payload")
	}
}

func TestMistakesAreFoundBeforeAnythingIsSent(t *testing.T) {
	s := answers(reply200(`{}`))
	c, _ := stubClient(t, s)
	publish := func(queue string, payload any, options ...PublishOption) error {
		_, err := c.Queue(queue).Publish(background, payload, options...)
		return err
	}
	for name, err := range map[string]error{
		"queue":       publish("a b", 1),
		"payload":     publish("q", make(chan int)),
		"raw":         publish("q", json.RawMessage("{x")),
		"key":         publish("q", 1, Key("")),
		"utf8":        publish("q", 1, Key("\xff")),
		"attribute":   publish("q", 1, Attribute("A", "b")),
		"value":       publish("q", 1, Attribute("a", "b\nc")),
		"space":       publish("q", 1, Attribute("a", " b")),
		"idempotency": publish("q", 1, IdempotencyKey("a b")),
		"type":        publish("q", Bytes(nil, "a\nb")),
	} {
		var failed *Error
		if !errors.As(err, &failed) || !errors.Is(err, ErrInvalidRequest) || failed.Applied != AppliedNo || failed.Status != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(s.seen()) != 0 {
		t.Error("something was sent")
	}
}

func TestSettingsOfClients(t *testing.T) {
	for _, url := range []string{"", "localhost:7777", "ftp://a", "http://", "http://a?b=c", "http://user:secret@a"} {
		_, err := New(WithURL(url), WithKey("k"), WithNamespace("n"))
		if !errors.Is(err, ErrInvalidRequest) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	t.Setenv("TIDEGATE_URL", "http://a")
	t.Setenv("TIDEGATE_KEY", "k")
	t.Setenv("TIDEGATE_NAMESPACE", "shop")
	c, err := New()
	if err != nil || c.base != "http://a/v1/shop" {
		t.Error(err)
	}
	if _, err := New(WithNamespace("a b")); err == nil {
		t.Error("a namespace with a space")
	}
}

func TestListReadsAllPages(t *testing.T) {
	s := answers(reply200(`{"items":[{"id":"1"}],"next":"a b"}`), reply200(`{"items":[],"next":"c"}`),
		reply200(`{"items":[{"id":"2"}],"next":null}`))
	c, _ := stubClient(t, s)
	jobs, err := c.Queue("q").Jobs(JobFilter{State: Dead, DueFrom: time.UnixMilli(5)}).PageSize(1).All(background)
	if err != nil || len(jobs) != 2 || jobs[1].ID != "2" {
		t.Fatal(jobs, err)
	}
	if got := s.seen()[1].path; got != "/v1/shop/queues/q/jobs?state=dead&due_from=5&limit=1&cursor=a%20b" {
		t.Error(got)
	}
	endless, _ := stubClient(t, answers(reply200(`{"items":[],"next":"a"}`)))
	if _, err := endless.Queues().All(background); !errors.Is(err, ErrServer) {
		t.Error(err)
	}
}

func TestPolicies(t *testing.T) {
	text := `{"lease_ms":60000,"retry":{"max_attempts":4,"delays_ms":[120000,600000],"jitter":0.5},"retain_ms":1500,` +
		`"paused":true,"paused_until":"2027-01-01T00:00:00Z","closed":false,"max_jobs":5,"max_running":null,` +
		`"groups":{"max_running":1},"rate":{"jobs":10,"per_ms":1000},"limit":"smtp","keep_dead_ms":null}`
	var policy Policy
	if err := json.Unmarshal([]byte(text), &policy); err != nil {
		t.Fatal(err)
	}
	if policy.Retry.Delays[1] != 10*time.Minute || *policy.GroupMaxRunning != 1 || policy.Rate.Per != time.Second {
		t.Errorf("%+v", policy)
	}
	if written, err := json.Marshal(policy); err != nil || string(written) != text {
		t.Errorf("%s %v", written, err)
	}
	change := PolicyChange{Paused: Ptr(false), Lease: Ptr(90 * time.Second), GroupMaxRunning: Ptr(int64(2)),
		Rate: &Rate{Jobs: 5, Per: time.Minute}, Fields: map[string]any{"limit": nil}}
	want := `{"groups":{"max_running":2},"lease":"1m30s","limit":null,"paused":false,"rate":{"jobs":5,"per":"1m"}}`
	if written, err := json.Marshal(change); err != nil || string(written) != want {
		t.Errorf("%s %v", written, err)
	}
}

func TestSchedules(t *testing.T) {
	job, err := NewScheduleJob(map[string]int64{"id": 9007199254740993}, Retain(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(Schedule{Queue: "q", Every: 90 * time.Second, Job: job})
	want := `{"queue":"q","job":{"payload":{"id":9007199254740993},"retain":"1d"},"paused":false,"every":"1m30s"}`
	if err != nil || string(written) != want {
		t.Errorf("%s %v", written, err)
	}
	var read Schedule
	if err := json.Unmarshal([]byte(want), &read); err != nil || read.Every != 90*time.Second || string(read.Job) != string(job) {
		t.Error(read, err)
	}
}

func TestReserveCarriesEnds(t *testing.T) {
	s := answers(reply200(`{"now":"2027-01-01T00:00:00Z","jobs":[],"settled":{"ack":[{"outcome":"done"}],"fail":[{"outcome":"dead"}]}}`))
	c, _ := stubClient(t, s)
	result, err := JSON(5)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Reserve(background, ReserveRequest{
		Queues: []QueueWeight{{Queue: "a", Weight: 2}, {Queue: "b"}}, MaxJobs: 3, Wait: time.Second,
		Acks: []Ack{{Lease: "1"}, {Lease: "2", Result: result}, {Lease: "3", Result: Bytes([]byte("x"), "text/plain")},
			{Lease: "6", Result: Bytes(nil, "text/plain")}},
		Fails: []Fail{{Lease: "4", Error: "<e>", RetryIn: Ptr(time.Second)}, {Lease: "5", Dead: true}},
	})
	if err != nil || answer.Acked[0].Outcome != "done" || answer.Failed[0].Outcome != "dead" {
		t.Fatal(answer, err)
	}
	want := `{"queues":[{"name":"a","weight":2},"b"],"max_jobs":3,"wait":"1s","settle":{"ack":["1",{"lease":"2","result":5},` +
		`{"lease":"3","result_base64":"eA==","content_type":"text/plain"},` +
		`{"lease":"6","result_base64":"","content_type":"text/plain"}],"fail":[{"lease":"4","error":"<e>",` +
		`"retry_in":"1s"},{"lease":"5","error":"","dead":true}]}}`
	if got := s.seen()[0].body; got != want {
		t.Error(got)
	}
}
