package client

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/clients/go/internal/wire"
)

// State is the state of a job.
type State string

// The states of jobs.
const (
	Delayed State = "delayed"
	Ready   State = "ready"
	Leased  State = "leased"
	Dead    State = "dead"
	Done    State = "done"
)

// JobDetails is all about a job, except its payload. Fields that the job does not have are zero or nil.
type JobDetails struct {
	ID           string            `json:"id"`
	Queue        string            `json:"queue"`
	Key          string            `json:"key,omitempty"`
	Group        string            `json:"group,omitempty"`
	State        State             `json:"state"`
	Priority     int               `json:"priority,omitempty"`
	CreatedAt    time.Time         `json:"created_at"`
	RunAt        *time.Time        `json:"run_at,omitempty"`
	LeaseUntil   *time.Time        `json:"lease_until,omitempty"`
	DoneAt       *time.Time        `json:"done_at,omitempty"`
	Attempt      int               `json:"attempt"`
	Failures     int               `json:"failures"`
	Losses       int               `json:"losses"`
	MaxAttempts  int               `json:"max_attempts"`
	ContentType  string            `json:"content_type,omitempty"`
	PayloadBytes int64             `json:"payload_bytes"`
	ResultBytes  *int64            `json:"result_bytes,omitempty"`
	Attributes   map[string]string `json:"attributes,omitempty"`
	// Reason is why the job is dead: failures, permanent, losses or unreadable.
	Reason  string    `json:"reason,omitempty"`
	History []Failure `json:"history,omitempty"`
}

// Failure is an attempt that has failed.
type Failure struct {
	Attempt int       `json:"attempt"`
	EndedAt time.Time `json:"ended_at"`
	Error   string    `json:"error,omitempty"`
}

// Explanation is why a job is not delivered now.
type Explanation struct {
	ID      string `json:"id"`
	Queue   string `json:"queue"`
	Key     string `json:"key,omitempty"`
	State   State  `json:"state"`
	Cause   string `json:"cause"`
	Summary string `json:"summary"`
	Facts   []Fact `json:"facts"`
}

// Fact is a fact about a job.
type Fact struct {
	Code   string     `json:"code"`
	Text   string     `json:"text"`
	At     *time.Time `json:"at,omitempty"`
	Count  *int64     `json:"count,omitempty"`
	Worker string     `json:"worker,omitempty"`
}

// Changed is the answer to a change.
type Changed struct {
	ID      string    `json:"id"`
	Key     string    `json:"key,omitempty"`
	Outcome string    `json:"outcome"`
	State   State     `json:"state"`
	RunAt   time.Time `json:"run_at"`
}

// Promoted is the answer to a promote. Its outcome is promoted or already_ready.
type Promoted struct {
	ID      string    `json:"id"`
	Key     string    `json:"key,omitempty"`
	Outcome string    `json:"outcome"`
	RunAt   time.Time `json:"run_at"`
}

// Cancelled is the answer to a cancel.
type Cancelled struct {
	ID string `json:"id"`
	// Outcome is cancelled, cancel_requested, revoked or already_done.
	Outcome string `json:"outcome"`
	// Was is the state before a job was cancelled.
	Was State `json:"was,omitempty"`
}

// IfRunning is the rule for a cancel of a job that a worker holds.
type IfRunning string

const (
	// Refuse: nothing happens, and the error is 409 job_running. This is the default.
	Refuse IfRunning = "refuse"
	// Ask: the worker learns it when it extends its lease. If it fails, releases or loses the job, the job is deleted.
	Ask IfRunning = "ask"
	// Revoke: the job is deleted now. The worker is stopped when it extends its lease.
	Revoke IfRunning = "revoke"
)

// JobFilter selects the jobs that match all its fields. Fields that are zero select all jobs.
type JobFilter struct {
	State State
	// DueFrom and DueBefore are about when a delayed or ready job is due, a lease ends, or a dead job died.
	DueFrom, DueBefore time.Time
	KeyPrefix          string
	Group              string
	// Attribute is NAME=VALUE.
	Attribute string
	// ErrorContains is a part of the last error.
	ErrorContains string
}

// pairs returns the names and values of the fields that are set, in turn.
func (f JobFilter) pairs() []string {
	var pairs []string
	add := func(name, value string) {
		if value != "" {
			pairs = append(pairs, name, value)
		}
	}
	add("state", string(f.State))
	add("due_from", filterInstant(f.DueFrom))
	add("due_before", filterInstant(f.DueBefore))
	add("key_prefix", f.KeyPrefix)
	add("group", f.Group)
	add("attribute", f.Attribute)
	add("error_contains", f.ErrorContains)
	return pairs
}

func filterInstant(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return wire.InstantText(at)
}

// MarshalJSON writes the filter as the server reads it.
func (f JobFilter) MarshalJSON() ([]byte, error) {
	fields := make(map[string]any)
	pairs := f.pairs()
	for i := 0; i < len(pairs); i += 2 {
		name, value := pairs[i], pairs[i+1]
		fields[name] = value
		if name == "due_from" || name == "due_before" {
			ms, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return nil, err
			}
			fields[name] = ms
		}
	}
	return json.Marshal(fields)
}
