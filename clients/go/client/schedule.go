package client

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/clients/go/internal/wire"
)

// Schedule says which job is published when. Set Cron or Every.
type Schedule struct {
	// Queue is the queue of the jobs. It cannot be changed.
	Queue string `json:"queue"`
	// Cron is a pattern of five fields, or of six that begin with the seconds.
	Cron string `json:"cron,omitempty"`
	// TimeZone is a name such as Europe/Berlin. Default: UTC.
	TimeZone string `json:"time_zone,omitempty"`
	// Every is the time between two ticks, at least 100 ms.
	Every time.Duration `json:"-"`
	// Job has the payload, up to 30 attributes, and the options of a publish without RunAt, keys and Durability.
	Job ScheduleJob `json:"job"`
	// Overlap is keep (the default), replace or allow: the rule if the job of an earlier tick is not done.
	Overlap string `json:"overlap,omitempty"`
	// CatchUp is one (the default), none or all: which ticks are published that were missed.
	CatchUp string `json:"catch_up,omitempty"`
	// CatchUpWindow: no tick is published later than this, at least 1 s; 0 for no limit.
	CatchUpWindow time.Duration `json:"-"`
	// StartsAt and EndsAt are the first and the last possible tick; nil for no limit.
	StartsAt *time.Time `json:"starts_at,omitempty"`
	EndsAt   *time.Time `json:"ends_at,omitempty"`
	// Paused schedules have no ticks.
	Paused bool `json:"paused"`
}

// ScheduleJob is the job of a schedule, as the server reads it. [NewScheduleJob] makes it.
type ScheduleJob json.RawMessage

// MarshalJSON returns the job.
func (j ScheduleJob) MarshalJSON() ([]byte, error) { return json.RawMessage(j).MarshalJSON() }

// UnmarshalJSON stores the job.
func (j *ScheduleJob) UnmarshalJSON(text []byte) error {
	*j = append((*j)[:0], text...)
	return nil
}

// NewScheduleJob describes the job of a schedule. The payload is as of [Queue.Publish], and has up to 16 KiB.
func NewScheduleJob(payload any, options ...PublishOption) (ScheduleJob, error) {
	job := newJobSpec(payload, append(options[:len(options):len(options)], Idempotent(false)))
	if job.err != nil {
		return nil, job.err
	}
	return job.batchItem(), nil
}

// schedulePlain is a schedule without its methods.
type schedulePlain Schedule

type scheduleView struct {
	*schedulePlain
	Every         wire.Duration `json:"every,omitempty"`
	CatchUpWindow wire.Duration `json:"catch_up_window,omitempty"`
}

// MarshalJSON writes the schedule as the server reads it.
func (s Schedule) MarshalJSON() ([]byte, error) {
	return marshal(scheduleView{(*schedulePlain)(&s), wire.Duration(s.Every), wire.Duration(s.CatchUpWindow)})
}

// UnmarshalJSON reads a schedule as the server writes it.
func (s *Schedule) UnmarshalJSON(text []byte) error {
	view := scheduleView{schedulePlain: (*schedulePlain)(s)}
	if err := json.Unmarshal(text, &view); err != nil {
		return err
	}
	s.Every, s.CatchUpWindow = time.Duration(view.Every), time.Duration(view.CatchUpWindow)
	return nil
}

// ScheduleDetails is a schedule with its state.
type ScheduleDetails struct {
	Name string `json:"name"`
	// Revision changes with each change of the schedule.
	Revision string   `json:"revision"`
	Config   Schedule `json:"config"`
	// NextRun is the next tick; nil if there is none.
	NextRun *time.Time `json:"next_run"`
}

// ScheduleRef is a schedule, by its name.
type ScheduleRef struct {
	client *Client
	name   string
}

// Schedule returns the schedule with this name: 1 to 64 bytes of letters, digits, - and _.
func (c *Client) Schedule(name string) *ScheduleRef { return &ScheduleRef{c, name} }

// Schedules lists the schedules of the namespace. Needs the scope read.
func (c *Client) Schedules() *List[ScheduleDetails] {
	return newList[ScheduleDetails](c, "/schedules", nil)
}

// Set creates or replaces the schedule. Needs the scopes admin and publish.
func (s *ScheduleRef) Set(ctx context.Context, schedule Schedule) (*ScheduleDetails, error) {
	r, err := jsonRequest(http.MethodPut, s.path(""), schedule, true)
	if err != nil {
		return nil, err
	}
	return scheduleCall[ScheduleDetails](ctx, s, r)
}

// Show returns the schedule. Needs the scope read.
func (s *ScheduleRef) Show(ctx context.Context) (*ScheduleDetails, error) {
	return scheduleCall[ScheduleDetails](ctx, s, get(s.path("")))
}

// Next returns the next ticks, up to 100. Needs the scope read.
func (s *ScheduleRef) Next(ctx context.Context, count int) ([]time.Time, error) {
	answer, err := scheduleCall[struct {
		Runs []time.Time `json:"runs"`
	}](ctx, s, get(query(s.path("/next"), "count", strconv.Itoa(count))))
	if err != nil {
		return nil, err
	}
	return answer.Runs, nil
}

// Delete ends the schedule. Jobs that it has published stay. Needs the scope admin.
func (s *ScheduleRef) Delete(ctx context.Context) error {
	r := &request{method: http.MethodDelete, path: s.path(""), safe: true}
	_, err := scheduleCall[struct{}](ctx, s, r)
	return err
}

func (s *ScheduleRef) path(rest string) string { return "/schedules/" + escape(s.name) + rest }

func scheduleCall[T any](ctx context.Context, s *ScheduleRef, r *request) (*T, error) {
	if !isName(s.name) || len(s.name) > 64 {
		return nil, invalid("name", "the name of a schedule is 1 to 64 bytes of letters, digits, - and _")
	}
	value, err := fetch[T](ctx, s.client, r)
	if err != nil {
		return nil, err
	}
	return &value, nil
}
