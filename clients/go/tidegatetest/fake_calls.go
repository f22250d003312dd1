package tidegatetest

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
)

// aboutJob answers a request about one job.
func (f *Fake) aboutJob(job *fakeJob, action string, parameters url.Values, body []byte) (*response, *problem) {
	switch action {
	case "GET ":
		return &response{status: 200, body: details(job)}, nil
	case "GET payload":
		return &response{status: 200, payload: &job.Payload}, nil
	case "GET result":
		return f.result(job)
	case "PATCH ":
		return f.change(job, body)
	case "POST promote":
		return f.promote(job)
	case "DELETE ":
		return f.cancel(job, client.IfRunning(parameters.Get("running")))
	default:
		return nil, unknown
	}
}

func details(job *fakeJob) *client.JobDetails {
	at := job.RunAt
	shown := &client.JobDetails{
		ID: job.ID, Queue: job.Queue, Key: job.Key, Group: job.Group, State: job.State, Priority: job.Priority,
		CreatedAt: job.CreatedAt, RunAt: &at, Attempt: job.Attempt, Failures: job.Failures, Losses: job.Losses,
		MaxAttempts: job.attempts(), ContentType: job.Payload.ContentType, PayloadBytes: int64(len(job.Payload.Data)),
		Attributes: job.Attributes,
	}
	if job.LastError != "" {
		shown.History = []client.Failure{{Attempt: job.Attempt, Error: job.LastError}}
	}
	return shown
}

func (f *Fake) result(job *fakeJob) (*response, *problem) {
	switch {
	case job == nil:
		return nil, notFound
	case job.State == client.Dead:
		return nil, &problem{409, "job_dead", "The job is in the dead letter."}
	case job.State != client.Done:
		return &response{status: 202, body: map[string]any{"id": job.ID, "state": job.State}}, nil
	case job.Result.Empty():
		return &response{status: 204, job: job.ID}, nil
	default:
		return &response{status: 200, payload: &job.Result, job: job.ID}, nil
	}
}

func (f *Fake) change(job *fakeJob, body []byte) (*response, *problem) {
	if refused := job.mustWait(); refused != nil {
		return nil, refused
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, invalid(err)
	}
	changed, err := jobOfItem(job.Queue, fields)
	if err != nil {
		return nil, invalid(err)
	}
	if _, has := fields["priority"]; has {
		job.Priority = changed.Priority
	}
	if _, has := fields["start_within"]; has {
		job.options.startWithin = changed.options.startWithin
	}
	if _, has := fields["delay"]; has {
		f.comeBack(job, changed.options.delay)
	}
	if _, has := fields["run_at"]; has {
		f.comeBack(job, changed.options.runAt.Sub(f.now))
	}
	return &response{status: 200, body: client.Changed{
		ID: job.ID, Key: job.Key, Outcome: "changed", State: job.State, RunAt: job.RunAt,
	}}, nil
}

// mustWait refuses changes of jobs that do not wait.
func (j *fakeJob) mustWait() *problem {
	switch j.State {
	case client.Leased:
		return &problem{409, "job_running", "A worker holds the job."}
	case client.Dead:
		return &problem{409, "job_dead", "The job is in the dead letter."}
	case client.Done:
		return notFound
	default:
		return nil
	}
}

func (f *Fake) promote(job *fakeJob) (*response, *problem) {
	if refused := job.mustWait(); refused != nil {
		return nil, refused
	}
	outcome := "already_ready"
	if job.State == client.Delayed {
		outcome = "promoted"
		f.comeBack(job, 0)
	}
	return &response{status: 200, body: client.Promoted{ID: job.ID, Key: job.Key, Outcome: outcome, RunAt: job.RunAt}}, nil
}

func (f *Fake) cancel(job *fakeJob, rule client.IfRunning) (*response, *problem) {
	answer := client.Cancelled{ID: job.ID, Outcome: "cancelled", Was: job.State}
	status := 200
	switch {
	case job.State == client.Done:
		answer.Outcome, answer.Was = "already_done", ""
	case job.State != client.Leased:
		job.deleted = true
	case rule == client.Ask:
		status, answer.Outcome, answer.Was = 202, "cancel_requested", ""
		job.cancelRequested = true
	case rule == client.Revoke:
		answer.Outcome, answer.Was = "revoked", ""
		job.deleted = true
	default:
		return nil, &problem{409, "job_running", "A worker holds the job."}
	}
	return &response{status: status, body: answer}, nil
}

// consume answers the requests of workers.
func (f *Fake) consume(call string, body []byte) (*response, *problem) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, invalid(err)
	}
	if call == "reserve" {
		return f.answerReserve(fields)
	}
	var leases []json.RawMessage
	if err := json.Unmarshal(fields["leases"], &leases); err != nil {
		return nil, invalid(err)
	}
	f.settleTime()
	outcomes, refused := f.settleAll(call, leases, fields)
	if refused != nil {
		return nil, refused
	}
	return &response{status: 200, body: map[string]any{"results": outcomes}}, nil
}

// settleAll carries out a call about leases.
func (f *Fake) settleAll(call string, leases []json.RawMessage, fields map[string]json.RawMessage) ([]client.Outcome, *problem) {
	length, err := durationField(fields, "lease")
	if err != nil {
		return nil, invalid(err)
	}
	delay, err := durationField(fields, "delay")
	if err != nil {
		return nil, invalid(err)
	}
	outcomes := make([]client.Outcome, len(leases))
	for i, text := range leases {
		item, err := leaseOf(text)
		if err != nil {
			return nil, invalid(err)
		}
		switch call {
		case "ack":
			outcomes[i] = f.ack(item.lease, item.result)
		case "fail":
			outcomes[i] = f.fail(item.lease, item.text, item.retryIn, item.dead)
		case "touch":
			outcomes[i] = f.touch(item.lease, length)
		case "release":
			outcomes[i] = f.release(item.lease, delay)
		default:
			return nil, unknown
		}
	}
	return outcomes, nil
}

// leaseItem is a lease with what is reported about it.
type leaseItem struct {
	lease   string
	result  client.Payload
	text    string
	retryIn *time.Duration
	dead    bool
}

func leaseOf(text json.RawMessage) (leaseItem, error) {
	var item leaseItem
	if json.Unmarshal(text, &item.lease) == nil {
		return item, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return item, err
	}
	var known struct {
		Lease string `json:"lease"`
		Error string `json:"error"`
		Dead  bool   `json:"dead"`
	}
	if err := json.Unmarshal(text, &known); err != nil {
		return item, err
	}
	item.lease, item.text, item.dead = known.Lease, known.Error, known.Dead
	if _, has := fields["retry_in"]; has {
		delay, err := durationField(fields, "retry_in")
		if err != nil {
			return item, err
		}
		item.retryIn = &delay
	}
	var err error
	item.result, err = payloadOf(fields, "result")
	return item, err
}

// answerReserve leases jobs. It does not wait.
func (f *Fake) answerReserve(fields map[string]json.RawMessage) (*response, *problem) {
	var request struct {
		Queues  []json.RawMessage `json:"queues"`
		MaxJobs int               `json:"max_jobs"`
		Settle  struct {
			Acks  []json.RawMessage `json:"ack"`
			Fails []json.RawMessage `json:"fail"`
		} `json:"settle"`
	}
	whole, err := json.Marshal(fields)
	if err == nil {
		err = json.Unmarshal(whole, &request)
	}
	if err != nil {
		return nil, invalid(err)
	}
	acked, refused := f.settleAll("ack", request.Settle.Acks, nil)
	if refused != nil {
		return nil, refused
	}
	failed, refused := f.settleAll("fail", request.Settle.Fails, nil)
	if refused != nil {
		return nil, refused
	}
	lease, err := durationField(fields, "lease")
	if err != nil {
		return nil, invalid(err)
	}
	var views []any
	for _, job := range f.reserve(queueNames(request.Queues), max(request.MaxJobs, 1), lease) {
		views = append(views, leasedView(job, f.now))
	}
	return &response{status: 200, body: map[string]any{
		"now": f.now, "jobs": views, "settled": map[string]any{"ack": acked, "fail": failed},
	}}, nil
}

func queueNames(queues []json.RawMessage) []string {
	names := make([]string, len(queues))
	for i, text := range queues {
		var choice struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(text, &names[i]) != nil && json.Unmarshal(text, &choice) == nil {
			names[i] = choice.Name
		}
	}
	return names
}

func leasedView(job *fakeJob, now time.Time) map[string]any {
	view := map[string]any{
		"id": job.ID, "queue": job.Queue, "lease": job.lease(), "lease_until": now.Add(job.length), "attempt": job.Attempt,
		"failures": job.Failures, "losses": job.Losses, "run_at": job.RunAt, "created_at": job.CreatedAt,
		"key": job.Key, "group": job.Group, "attributes": job.Attributes, "content_type": job.Payload.ContentType,
	}
	if job.Payload.IsJSON() {
		view["payload"] = json.RawMessage(job.Payload.Data)
	} else {
		view["payload_base64"] = job.Payload.Data
	}
	return view
}
