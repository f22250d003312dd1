package client

import (
	"context"
	"net/http"
	"time"
)

// Action is what [Queue.Act] does with jobs.
type Action struct {
	verb   string
	fields map[string]any
	err    *Error
}

// ActCancel cancels jobs that are delayed, ready or leased. The rule is for jobs that a worker holds; "" is [Refuse].
func ActCancel(rule IfRunning) Action {
	fields := map[string]any{}
	if rule != "" {
		fields["running"] = rule
	}
	return Action{verb: "cancel", fields: fields}
}

// ActPromote makes delayed jobs ready.
func ActPromote() Action { return Action{verb: "promote"} }

// ActChange changes jobs that are delayed or ready. A delay counts from the begin of the action.
func ActChange(options ...ChangeOption) Action {
	change := changeOf(options)
	return Action{verb: "change", fields: map[string]any{"change": change.fields()}, err: change.err}
}

// ActRespawn brings dead jobs back, evenly spaced; a rate of 0 makes all ready at once.
func ActRespawn(ratePerSecond int) Action {
	fields := map[string]any{}
	if ratePerSecond != 0 {
		fields["rate_per_second"] = ratePerSecond
	}
	return Action{verb: "respawn", fields: fields}
}

// ActPurge deletes jobs that are ready or dead. The filter must have a state.
func ActPurge() Action { return Action{verb: "purge"} }

// Acted is how many jobs an action has found and changed.
type Acted struct {
	Matched int64 `json:"matched"`
	Changed int64 `json:"changed"`
}

type actAnswer struct {
	Acted
	Next   *string `json:"next"`
	WaitMS int64   `json:"wait_ms"`
}

// Act does something with all jobs of the queue that match the filter, page by page. Needs the scope admin. If it fails,
// the counts of the pages before are returned with the error, and it may be begun again: jobs that were changed do not
// match any more. If an answer was lost and the request was repeated, the jobs of the lost answer are not counted.
func (q *Queue) Act(ctx context.Context, action Action, filter JobFilter) (Acted, error) {
	return q.act(ctx, action, filter, false)
}

// CountMatching counts the jobs that the action would find, and changes none.
func (q *Queue) CountMatching(ctx context.Context, action Action, filter JobFilter) (Acted, error) {
	return q.act(ctx, action, filter, true)
}

func (q *Queue) act(ctx context.Context, action Action, filter JobFilter, dryRun bool) (Acted, error) {
	var total Acted
	if action.err != nil {
		return total, action.err
	}
	body := map[string]any{"do": action.verb, "filter": filter}
	for name, value := range action.fields {
		body[name] = value
	}
	if dryRun {
		body["dry_run"] = true
	}
	for {
		answer, err := queueJSON[actAnswer](ctx, q, http.MethodPost, "/jobs/act", body, true)
		if err != nil {
			return total, err
		}
		total.Matched += answer.Matched
		total.Changed += answer.Changed
		if answer.Next == nil {
			return total, nil
		}
		body["cursor"] = *answer.Next
		if pause := time.Duration(answer.WaitMS) * time.Millisecond; pause > 0 && !q.client.wait(ctx, pause) {
			return total, context.Cause(ctx)
		}
	}
}
