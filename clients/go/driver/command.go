package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
)

// command is a command of the suite, with the fields of all commands.
type command struct {
	jobFields
	ID           json.RawMessage  `json:"id"`
	Do           string           `json:"do"`
	Queue        string           `json:"queue"`
	Jobs         []jobFields      `json:"jobs"`
	Atomic       bool             `json:"atomic"`
	Count        int              `json:"count"`
	Concurrency  int              `json:"concurrency"`
	PayloadBytes int              `json:"payload_bytes"`
	WaitMS       *millis          `json:"wait_ms"`
	LeaseMS      millis           `json:"lease_ms"`
	DelayMS      millis           `json:"delay_ms"`
	Queues       []string         `json:"queues"`
	MaxJobs      int              `json:"max_jobs"`
	Leases       []string         `json:"leases"`
	Error        string           `json:"error"`
	RetryInMS    *millis          `json:"retry_in_ms"`
	Dead         bool             `json:"dead"`
	Job          jobName          `json:"job"`
	Running      client.IfRunning `json:"running"`
	Filter       filterFields     `json:"filter"`
	PageSize     int              `json:"page_size"`
	Action       string           `json:"action"`
	DryRun       bool             `json:"dry_run"`
	Policy       map[string]any   `json:"policy"`
	State        client.State     `json:"state"`
	Limit        int64            `json:"limit"`
	Name         string           `json:"name"`
	Schedule     json.RawMessage  `json:"schedule"`
	Key          keyFields        `json:"key"`
	KeyID        string           `json:"key_id"`
	Slots        *int             `json:"slots"`
	Prefetch     *int             `json:"prefetch"`
	MaxRunMS     *millis          `json:"max_run_ms"`
	Strict       bool             `json:"strict"`
	Weights      map[string]int   `json:"weights"`
	GraceMS      *millis          `json:"grace_ms"`
}

// millis is a duration in ms.
type millis int64

func (m millis) duration() time.Duration { return time.Duration(m) * time.Millisecond }

// orZero returns the duration, 0 if there is none.
func orZero(m *millis) time.Duration {
	if m == nil {
		return 0
	}
	return m.duration()
}

// instant is an instant in ms since 1970, or as the server writes it.
type instant struct{ time.Time }

func (i *instant) UnmarshalJSON(text []byte) error {
	var ms int64
	if err := json.Unmarshal(text, &ms); err == nil {
		i.Time = time.UnixMilli(ms)
		return nil
	}
	return json.Unmarshal(text, &i.Time)
}

type jobName struct {
	ID  string `json:"id"`
	Key string `json:"key"`
}

// jobFields are the fields of a job to publish.
type jobFields struct {
	Payload       json.RawMessage   `json:"payload"`
	PayloadBase64 []byte            `json:"payload_base64"`
	ContentType   string            `json:"content_type"`
	Attributes    map[string]string `json:"attributes"`
	Options       optionFields      `json:"options"`
}

// payload returns the payload as the client takes it.
func (j *jobFields) payload() any {
	if j.PayloadBase64 == nil {
		return j.Payload
	}
	return client.Bytes(j.PayloadBase64, j.ContentType)
}

type optionFields struct {
	DelayMS        *millis             `json:"delay_ms"`
	RunAtMS        *instant            `json:"run_at_ms"`
	Key            *string             `json:"key"`
	IfExists       *client.ExistsRule  `json:"if_exists"`
	RetainMS       *millis             `json:"retain_ms"`
	LeaseMS        *millis             `json:"lease_ms"`
	MaxAttempts    *int                `json:"max_attempts"`
	Retry          *client.RetryPolicy `json:"retry"`
	StartWithinMS  *millis             `json:"start_within_ms"`
	Priority       *int                `json:"priority"`
	Group          *string             `json:"group"`
	Durability     *string             `json:"durability"`
	IdempotencyKey *string             `json:"idempotency_key"`
	Idempotent     *bool               `json:"idempotent"`
	MaxDeliveries  *int                `json:"max_deliveries"`
	TTLMS          *millis             `json:"ttl_ms"`
	// Running and RatePerSecond are of actions.
	Running       client.IfRunning `json:"running"`
	RatePerSecond int              `json:"rate_per_second"`
}

// publishOptions returns the options that are set.
func (j *jobFields) publishOptions() []client.PublishOption {
	o := &j.Options
	var options []client.PublishOption
	for _, changed := range o.changeOptions() {
		options = append(options, changed)
	}
	options = appendSet(options, o.Key, client.Key)
	options = appendSet(options, o.IfExists, client.IfExists)
	options = appendSet(options, o.RetainMS, ofMillis(client.Retain))
	options = appendSet(options, o.LeaseMS, ofMillis(client.Lease))
	options = appendSet(options, o.MaxAttempts, client.MaxAttempts)
	options = appendSet(options, o.Retry, client.Retry)
	options = appendSet(options, o.Group, client.Group)
	options = appendSet(options, o.Durability, client.Durability)
	options = appendSet(options, o.IdempotencyKey, client.IdempotencyKey)
	options = appendSet(options, o.MaxDeliveries, client.MaxDeliveries)
	options = appendSet(options, o.TTLMS, ofMillis(client.TTL))
	options = appendSet(options, o.Idempotent, client.Idempotent)
	for name, value := range j.Attributes {
		options = append(options, client.Attribute(name, value))
	}
	return options
}

func (o *optionFields) changeOptions() []client.ChangeOption {
	var options []client.ChangeOption
	options = appendSet(options, o.DelayMS, ofMillis(client.Delay))
	options = appendSet(options, o.RunAtMS, func(at instant) client.ChangeOption { return client.RunAt(at.Time) })
	options = appendSet(options, o.StartWithinMS, ofMillis(client.StartWithin))
	return appendSet(options, o.Priority, client.Priority)
}

// appendSet appends an option whose value is there.
func appendSet[V, O any](options []O, value *V, option func(V) O) []O {
	if value == nil {
		return options
	}
	return append(options, option(*value))
}

func ofMillis[O any](option func(time.Duration) O) func(millis) O {
	return func(ms millis) O { return option(ms.duration()) }
}

type filterFields struct {
	State         client.State `json:"state"`
	DueFrom       instant      `json:"due_from"`
	DueBefore     instant      `json:"due_before"`
	KeyPrefix     string       `json:"key_prefix"`
	Group         string       `json:"group"`
	Attribute     string       `json:"attribute"`
	ErrorContains string       `json:"error_contains"`
}

func (f *filterFields) filter() client.JobFilter {
	return client.JobFilter{
		State: f.State, DueFrom: f.DueFrom.Time, DueBefore: f.DueBefore.Time, KeyPrefix: f.KeyPrefix,
		Group: f.Group, Attribute: f.Attribute, ErrorContains: f.ErrorContains,
	}
}

type keyFields struct {
	Scopes      []string `json:"scopes"`
	Description string   `json:"description"`
	ExpiresAt   instant  `json:"expires_at"`
	Namespace   string   `json:"namespace"`
	Pool        string   `json:"pool"`
}

func (c *command) action() (client.Action, error) {
	running := c.Running
	if running == "" {
		running = c.Options.Running
	}
	switch c.Action {
	case "cancel":
		return client.ActCancel(running), nil
	case "promote":
		return client.ActPromote(), nil
	case "change":
		return client.ActChange(c.Options.changeOptions()...), nil
	case "respawn":
		return client.ActRespawn(c.Options.RatePerSecond), nil
	case "purge":
		return client.ActPurge(), nil
	default:
		return client.Action{}, fmt.Errorf("unknown action %q", c.Action)
	}
}

var instantText = regexp.MustCompile(`"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,3}))?Z"`)

// asServer writes a value with instants as the server writes them: with three digits.
func asServer(value any) (json.RawMessage, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return instantText.ReplaceAllFunc(text, func(found []byte) []byte {
		parts := instantText.FindSubmatch(found)
		return fmt.Appendf(nil, `"%s.%sZ"`, parts[1], (string(parts[2]) + "000")[:3])
	}), nil
}

// written writes a payload as the suite reads it, with this prefix of its fields.
func written(payload client.Payload, name string) map[string]any {
	switch {
	case payload.Empty():
		return map[string]any{name: nil}
	case payload.IsJSON():
		return map[string]any{name: json.RawMessage(payload.Data)}
	default:
		return map[string]any{name + "_base64": payload.Data, "content_type": payload.ContentType}
	}
}
