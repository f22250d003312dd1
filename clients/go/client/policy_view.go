package client

import (
	"encoding/json"
	"time"

	"github.com/tidegate/tidegate/clients/go/internal/wire"
)

// policyView is a policy as the server writes it.
type policyView struct {
	LeaseMS     int64      `json:"lease_ms"`
	Retry       retryView  `json:"retry"`
	RetainMS    int64      `json:"retain_ms"`
	Paused      bool       `json:"paused"`
	PausedUntil *time.Time `json:"paused_until"`
	Closed      bool       `json:"closed"`
	MaxJobs     *int64     `json:"max_jobs"`
	MaxRunning  *int64     `json:"max_running"`
	Groups      groupsView `json:"groups"`
	Rate        *rateView  `json:"rate"`
	Limit       *string    `json:"limit"`
	KeepDeadMS  *int64     `json:"keep_dead_ms"`
}

type retryView struct {
	MaxAttempts int      `json:"max_attempts"`
	DelaysMS    []int64  `json:"delays_ms,omitempty"`
	FirstMS     *int64   `json:"first_ms,omitempty"`
	Factor      *float64 `json:"factor,omitempty"`
	MaxMS       *int64   `json:"max_ms,omitempty"`
	Jitter      float64  `json:"jitter"`
}

type groupsView struct {
	MaxRunning *int64 `json:"max_running"`
}

type rateView struct {
	Jobs  int64 `json:"jobs"`
	PerMS int64 `json:"per_ms"`
}

// UnmarshalJSON reads a policy as the server writes it.
func (p *Policy) UnmarshalJSON(text []byte) error {
	var view policyView
	if err := json.Unmarshal(text, &view); err != nil {
		return err
	}
	*p = Policy{
		Lease:           time.Duration(view.LeaseMS) * time.Millisecond,
		Retry:           view.Retry.retry(),
		Retain:          time.Duration(view.RetainMS) * time.Millisecond,
		Paused:          view.Paused,
		PausedUntil:     view.PausedUntil,
		Closed:          view.Closed,
		MaxJobs:         view.MaxJobs,
		MaxRunning:      view.MaxRunning,
		GroupMaxRunning: view.Groups.MaxRunning,
		KeepDead:        ofMilliseconds(view.KeepDeadMS),
	}
	if view.Rate != nil {
		p.Rate = &Rate{Jobs: view.Rate.Jobs, Per: time.Duration(view.Rate.PerMS) * time.Millisecond}
	}
	if view.Limit != nil {
		p.Limit = *view.Limit
	}
	return nil
}

// MarshalJSON writes a policy as the server writes it.
func (p Policy) MarshalJSON() ([]byte, error) {
	view := policyView{
		LeaseMS:     wire.Milliseconds(p.Lease),
		Retry:       retryViewOf(p.Retry),
		RetainMS:    wire.Milliseconds(p.Retain),
		Paused:      p.Paused,
		PausedUntil: p.PausedUntil,
		Closed:      p.Closed,
		MaxJobs:     p.MaxJobs,
		MaxRunning:  p.MaxRunning,
		Groups:      groupsView{p.GroupMaxRunning},
	}
	if p.Rate != nil {
		view.Rate = &rateView{p.Rate.Jobs, wire.Milliseconds(p.Rate.Per)}
	}
	if p.Limit != "" {
		view.Limit = &p.Limit
	}
	if p.KeepDead != nil {
		view.KeepDeadMS = Ptr(wire.Milliseconds(*p.KeepDead))
	}
	return marshal(view)
}

func (v retryView) retry() RetryPolicy {
	retry := RetryPolicy{MaxAttempts: v.MaxAttempts, Jitter: &v.Jitter}
	for _, ms := range v.DelaysMS {
		retry.Delays = append(retry.Delays, time.Duration(ms)*time.Millisecond)
	}
	if v.FirstMS != nil {
		retry.First = *ofMilliseconds(v.FirstMS)
	}
	if v.Factor != nil {
		retry.Factor = *v.Factor
	}
	if v.MaxMS != nil {
		retry.Max = *ofMilliseconds(v.MaxMS)
	}
	return retry
}

func retryViewOf(r RetryPolicy) retryView {
	view := retryView{MaxAttempts: r.MaxAttempts}
	if r.Jitter != nil {
		view.Jitter = *r.Jitter
	}
	for _, delay := range r.Delays {
		view.DelaysMS = append(view.DelaysMS, wire.Milliseconds(delay))
	}
	if r.Delays == nil {
		view.FirstMS, view.MaxMS = Ptr(wire.Milliseconds(r.First)), Ptr(wire.Milliseconds(r.Max))
		view.Factor = &r.Factor
	}
	return view
}
