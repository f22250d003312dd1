package tidegatetest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
	"github.com/tidegate/tidegate/clients/go/internal/wire"
)

// problem is an error of the fake.
type problem struct {
	status       int
	code, detail string
}

var (
	notFound = &problem{404, "job_not_found", "The queue has no job with this id or key."}
	unknown  = &problem{501, "not_in_fake", "The fake does not know this request: use StartServer."}
)

func invalid(err error) *problem { return &problem{400, "invalid_parameter", err.Error()} }

// response is an answer: JSON, or a payload.
type response struct {
	status  int
	body    any
	payload *client.Payload
	job     string
}

// RoundTrip answers a request of a client.
func (f *Fake) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	var body []byte
	if r.Body != nil {
		defer r.Body.Close()
		read, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = read
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	answer, refused := f.route(r, body)
	if refused != nil {
		answer = &response{status: refused.status, body: map[string]any{
			"status": refused.status, "code": refused.code, "detail": refused.detail, "applied": "no",
		}}
	}
	return answer.http(r)
}

func (a *response) http(r *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	var body []byte
	switch {
	case a.payload != nil:
		header.Set("Content-Type", a.payload.ContentType)
		body = a.payload.Data
	case a.body != nil:
		text, err := json.Marshal(a.body)
		if err != nil {
			return nil, err
		}
		body = text
	}
	if a.job != "" {
		header.Set("Tidegate-Job-Id", a.job)
	}
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}, nil
}

// route finds what a request is about. Parts of a path are decoded after they are split.
func (f *Fake) route(r *http.Request, body []byte) (*response, *problem) {
	var parts []string
	for _, part := range strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/v1/"+namespace+"/"), "/") {
		decoded, err := url.PathUnescape(part)
		if err != nil {
			return nil, invalid(err)
		}
		parts = append(parts, decoded)
	}
	switch {
	case len(parts) == 1 && r.Method == http.MethodPost:
		return f.consume(parts[0], body)
	case len(parts) == 2 && parts[0] == "queues" && r.Method == http.MethodGet:
		return f.counts(parts[1]), nil
	case len(parts) >= 3 && parts[0] == "queues" && parts[2] == "jobs":
		return f.routeJobs(r, parts[1], parts[3:], body)
	default:
		return nil, unknown
	}
}

func (f *Fake) routeJobs(r *http.Request, queue string, rest []string, body []byte) (*response, *problem) {
	if r.Method == http.MethodPost && len(rest) == 0 {
		return f.publishOne(r, queue, body, false)
	}
	if r.Method == http.MethodPost && len(rest) == 1 && rest[0] == "call" {
		return f.publishOne(r, queue, body, true)
	}
	if r.Method == http.MethodPost && len(rest) == 1 && rest[0] == "batch" {
		return f.publishBatch(queue, body)
	}
	if len(rest) == 0 || len(rest) == 1 && rest[0] == "act" {
		return nil, unknown
	}
	f.settleTime()
	job := f.find(queue, rest[0], r.URL.Query())
	if job == nil {
		return nil, notFound
	}
	action := r.Method + " " + strings.Join(rest[1:], "/")
	return f.aboutJob(job, action, r.URL.Query(), body)
}

func (f *Fake) find(queue, part string, parameters url.Values) *fakeJob {
	if key, is := keyOf(part, parameters); is {
		return f.withKey(queue, key)
	}
	for _, job := range f.jobs {
		kept := job.State != client.Done || f.now.Before(job.retainUntil)
		if job.Queue == queue && job.ID == part && !job.deleted && kept {
			return job
		}
	}
	return nil
}

func (f *Fake) publishOne(r *http.Request, queue string, body []byte, call bool) (*response, *problem) {
	job, err := jobOfRequest(queue, r, body)
	if err != nil {
		return nil, invalid(err)
	}
	answer, refused := f.publish(job)
	if refused != nil {
		return nil, refused
	}
	if call {
		return f.result(f.find(queue, answer.ID, nil))
	}
	return &response{status: 201, body: answer}, nil
}

func (f *Fake) publishBatch(queue string, body []byte) (*response, *problem) {
	var batch struct {
		Atomic bool                         `json:"atomic"`
		Jobs   []map[string]json.RawMessage `json:"jobs"`
	}
	if err := json.Unmarshal(body, &batch); err != nil {
		return nil, invalid(err)
	}
	kept := append([]*fakeJob(nil), f.jobs...)
	results := make([]any, len(batch.Jobs))
	for i, item := range batch.Jobs {
		job, err := jobOfItem(queue, item)
		if err != nil {
			return nil, invalid(err)
		}
		answer, refused := f.publish(job)
		results[i] = answer
		if refused != nil && batch.Atomic {
			f.jobs = kept
			return nil, refused
		}
		if refused != nil {
			results[i] = map[string]any{"problem": map[string]any{
				"status": refused.status, "code": refused.code, "detail": refused.detail, "applied": "no",
			}}
		}
	}
	return &response{status: 200, body: map[string]any{"results": results}}, nil
}

func (f *Fake) counts(queue string) *response {
	f.settleTime()
	view := client.QueueView{Queue: queue}
	for _, job := range f.jobs {
		if job.Queue != queue || job.deleted {
			continue
		}
		switch job.State {
		case client.Delayed:
			view.Jobs.Delayed++
		case client.Ready:
			view.Jobs.Ready++
		case client.Leased:
			view.Jobs.Leased++
		case client.Dead:
			view.Jobs.Dead++
		case client.Done:
			if f.now.Before(job.retainUntil) {
				view.Jobs.Done++
			}
		}
	}
	return &response{status: 200, body: view}
}

// durationField reads a field of an object that is a duration; 0 if it is absent.
func durationField(fields map[string]json.RawMessage, name string) (time.Duration, error) {
	var d wire.Duration
	if text, has := fields[name]; has {
		if err := json.Unmarshal(text, &d); err != nil {
			return 0, err
		}
	}
	return time.Duration(d), nil
}
