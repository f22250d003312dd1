package client

import (
	"errors"
	"fmt"
	"time"
)

// The classes of errors, for errors.Is. Each [*Error] is of one class.
var (
	// ErrAuth: the API key is missing, not valid, or does not allow the request (401, 403).
	ErrAuth = errors.New("tidegate: not allowed")
	// ErrNotFound: the job, schedule, key or route is not there (404).
	ErrNotFound = errors.New("tidegate: not found")
	// ErrConflict: the state of the job or queue does not allow the change (409, 412), or an idempotency key was used
	// for another publish (422 idempotency_key_reused).
	ErrConflict = errors.New("tidegate: conflict")
	// ErrRateLimited: a queue is full, or a rate limit is reached (429). The client does not repeat such requests.
	ErrRateLimited = errors.New("tidegate: rate limited")
	// ErrInvalidRequest: the server refuses the request (other 4xx), or the client has found the mistake itself, and has
	// sent nothing.
	ErrInvalidRequest = errors.New("tidegate: invalid request")
	// ErrServer: the server failed (5xx), or its answer cannot be read.
	ErrServer = errors.New("tidegate: server error")
	// ErrConnection: there was no answer. The context may have ended: errors.Is(err, context.DeadlineExceeded) and
	// context.Canceled work, too.
	ErrConnection = errors.New("tidegate: no answer")
)

// Applied says whether the change of a request that failed was made all the same.
type Applied string

const (
	// AppliedNo: nothing was changed.
	AppliedNo Applied = "no"
	// AppliedYes: the change was made, but not as durable as requested (504 not_durable).
	AppliedYes Applied = "yes"
	// AppliedUnknown: the change may have been made.
	AppliedUnknown Applied = "unknown"
)

// Error is the error of a request.
type Error struct {
	// Class is one of [ErrAuth], [ErrNotFound], [ErrConflict], [ErrRateLimited], [ErrInvalidRequest], [ErrServer] and
	// [ErrConnection].
	Class error
	// Status is the HTTP status of the answer; 0 without an answer of the server.
	Status int
	// Code is the machine-readable reason of the server, such as job_not_found. Empty if the server gave none.
	Code string
	// Detail is the cause, for people.
	Detail string
	// Applied says whether the change was made.
	Applied Applied
	// Field is the parameter or field that is not valid, such as "delay". Empty if there is none.
	Field string
	// RetryAfter is the time after which the same request may succeed, if the server said so; otherwise 0.
	RetryAfter time.Duration
	// Job is the id of the job that the error is about, if the server named it.
	Job string

	cause error
}

// Error returns the status, the code and the detail.
func (e *Error) Error() string {
	switch {
	case e.Code != "":
		return fmt.Sprintf("tidegate: %d %s: %s", e.Status, e.Code, e.Detail)
	case e.Status != 0:
		return fmt.Sprintf("tidegate: status %d: %s", e.Status, e.Detail)
	default:
		return fmt.Sprintf("%v: %s", e.Class, e.Detail)
	}
}

// Is reports whether target is the class of the error.
func (e *Error) Is(target error) bool { return target == e.Class }

// Unwrap returns the error of the connection or of the context, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// Temporary reports whether the same request may succeed later: the connection or the server failed, or a limit is
// reached.
func (e *Error) Temporary() bool {
	switch e.Status {
	case 0:
		return e.Class == ErrConnection
	case 408, 429, 500, 502, 503, 504:
		return true
	default:
		return false
	}
}

// repeated reports whether the client repeats the request. A full queue (429) stays full for longer than a client should
// wait, and 500 is a defect.
func (e *Error) repeated(safe bool) bool {
	short := e.Temporary() && e.Status != 429 && e.Status != 500
	switch e.Applied {
	case AppliedNo:
		return short
	case AppliedUnknown:
		return short && safe
	default:
		return false
	}
}

// CodeOf returns the code of an error of a request, or "" for other errors.
func CodeOf(err error) string {
	var failed *Error
	if errors.As(err, &failed) {
		return failed.Code
	}
	return ""
}

// invalid is an error for a mistake that is found before anything is sent.
func invalid(field, format string, args ...any) *Error {
	return &Error{Class: ErrInvalidRequest, Detail: fmt.Sprintf(format, args...), Field: field, Applied: AppliedNo}
}

func classOf(status int, code string) error {
	switch {
	case status == 401 || status == 403:
		return ErrAuth
	case status == 404:
		return ErrNotFound
	case status == 409 || status == 412 || code == "idempotency_key_reused":
		return ErrConflict
	case status == 429:
		return ErrRateLimited
	case status >= 400 && status < 500:
		return ErrInvalidRequest
	default:
		return ErrServer
	}
}

// asError returns the error of a request that err is, or a general one.
func asError(err error) *Error {
	var failed *Error
	if errors.As(err, &failed) {
		return failed
	}
	return &Error{Class: ErrInvalidRequest, Detail: err.Error(), Applied: AppliedNo, cause: err}
}
