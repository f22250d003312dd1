package tidegatetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
	"github.com/tidegate/tidegate/clients/go/internal/wire"
)

const attributePrefix = "Job-Attr-"

// publish stores a job, or finds the one with its key. The caller holds the mutex.
func (f *Fake) publish(job *fakeJob) (*client.Published, *problem) {
	f.settleTime()
	if earlier := f.withIdempotencyKey(job); earlier != nil {
		answer := published(earlier, "created")
		answer.Replayed = true
		return answer, nil
	}
	job.CreatedAt, job.RunAt = f.now, f.now.Add(job.options.delay)
	if !job.options.runAt.IsZero() {
		job.RunAt = job.options.runAt
	}
	job.State = client.Ready
	if job.RunAt.After(f.now) {
		job.State = client.Delayed
	}
	if existing := f.withKey(job.Queue, job.Key); existing != nil {
		return f.publishAgain(existing, job)
	}
	return f.store(job), nil
}

func (f *Fake) store(job *fakeJob) *client.Published {
	f.next++
	job.ID = fmt.Sprintf("01FAKE%020d", f.next)
	f.jobs = append(f.jobs, job)
	return published(job, "created")
}

// publishAgain publishes a job whose key another one has.
func (f *Fake) publishAgain(existing, job *fakeJob) (*client.Published, *problem) {
	rule := job.options.ifExists
	switch {
	case existing.State == client.Dead:
		existing.replaceBy(job)
		return published(existing, "revived"), nil
	case rule == string(client.Reject):
		return nil, &problem{409, "key_taken", "A job has this key, and `if_exists` is `reject`."}
	case existing.State == client.Leased && (rule == string(client.Replace) || existing.cancelRequested):
		existing.rerun = job
		return published(existing, "rerun"), nil
	case rule == string(client.Replace) && existing.State == client.Done:
		existing.Key = ""
		return f.store(job), nil
	case rule == string(client.Replace):
		existing.replaceBy(job)
		return published(existing, "replaced"), nil
	default:
		return published(existing, "exists"), nil
	}
}

// withKey returns the job that has a key. Jobs that are done have it as long as they are retained.
func (f *Fake) withKey(queue, key string) *fakeJob {
	for _, job := range f.jobs {
		if key == "" || job.Queue != queue || job.Key != key || job.deleted {
			continue
		}
		if job.State != client.Done || f.now.Before(job.retainUntil) {
			return job
		}
	}
	return nil
}

func (f *Fake) withIdempotencyKey(job *fakeJob) *fakeJob {
	for _, earlier := range f.jobs {
		if job.idempotencyKey != "" && earlier.Queue == job.Queue && earlier.idempotencyKey == job.idempotencyKey {
			return earlier
		}
	}
	return nil
}

func published(job *fakeJob, outcome string) *client.Published {
	at := job.RunAt
	return &client.Published{
		ID: job.ID, Queue: job.Queue, Key: job.Key, Outcome: outcome, State: job.State, RunAt: &at, Durability: "memory",
	}
}

// jobOfRequest reads a publish of one job.
func jobOfRequest(queue string, r *http.Request, body []byte) (*fakeJob, error) {
	fields := make(map[string]string)
	for name, values := range r.URL.Query() {
		fields[name] = values[0]
	}
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		fields["idempotency_key"] = key
	}
	attributes := make(map[string]string)
	for name, values := range r.Header {
		if rest, is := strings.CutPrefix(name, attributePrefix); is {
			attributes[strings.ToLower(rest)] = values[0]
		}
	}
	payload := client.Bytes(body, r.Header.Get("Content-Type"))
	return newJob(queue, payload, attributes, fields)
}

// jobOfItem reads an item of a batch.
func jobOfItem(queue string, item map[string]json.RawMessage) (*fakeJob, error) {
	payload, err := payloadOf(item, "payload")
	if err != nil {
		return nil, err
	}
	var attributes map[string]string
	if text, has := item["attributes"]; has {
		if err := json.Unmarshal(text, &attributes); err != nil {
			return nil, err
		}
		delete(item, "attributes")
	}
	fields := make(map[string]string)
	for name, value := range item {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		fields[name] = text
	}
	return newJob(queue, payload, attributes, fields)
}

// payloadOf takes a payload or a result out of the fields of an object.
func payloadOf(fields map[string]json.RawMessage, name string) (client.Payload, error) {
	text, isJSON := fields[name]
	encoded := fields[name+"_base64"]
	contentType := "application/octet-stream"
	if given, has := fields["content_type"]; has {
		if err := json.Unmarshal(given, &contentType); err != nil {
			return client.Payload{}, err
		}
	}
	delete(fields, name)
	delete(fields, name+"_base64")
	delete(fields, "content_type")
	switch {
	case isJSON:
		return client.Bytes(text, "application/json"), nil
	case encoded == nil:
		return client.Payload{}, nil
	}
	var data []byte
	err := json.Unmarshal(encoded, &data)
	return client.Bytes(data, contentType), err
}

func newJob(queue string, payload client.Payload, attributes, fields map[string]string) (*fakeJob, error) {
	job := &fakeJob{}
	for name, value := range fields {
		if err := job.options.set(name, value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	job.Queue, job.Payload, job.Attributes = queue, payload, attributes
	job.Key, job.Group, job.Priority = job.options.key, job.options.group, job.options.priority
	job.idempotencyKey = job.options.idempotencyKey
	return job, nil
}

// set sets an option by the name of the server. Options that do not matter to a fake are ignored.
func (o *options) set(name, value string) (err error) {
	switch name {
	case "delay":
		o.delay, err = wire.ParseDuration(value)
	case "run_at":
		o.runAt, err = instant(value)
	case "retain":
		o.retain, err = wire.ParseDuration(value)
	case "lease":
		o.lease, err = wire.ParseDuration(value)
	case "start_within":
		o.startWithin, err = wire.ParseDuration(value)
	case "priority":
		o.priority, err = strconv.Atoi(value)
	case "max_attempts":
		o.maxAttempts, err = strconv.Atoi(value)
	case "retry":
		err = json.Unmarshal([]byte(value), &o.retry)
	case "key":
		o.key = value
	case "if_exists":
		o.ifExists = value
	case "group":
		o.group = value
	case "idempotency_key":
		o.idempotencyKey = value
	}
	return err
}

func instant(text string) (time.Time, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.UnixMilli(ms).UTC(), nil
	}
	return time.Parse(time.RFC3339, text)
}

// keyOf reads the key of a path with the parameter key, or of a part that begins with key:.
func keyOf(part string, parameters url.Values) (string, bool) {
	if key, is := strings.CutPrefix(part, "key:"); is {
		return key, true
	}
	return parameters.Get("key"), part == "-"
}
