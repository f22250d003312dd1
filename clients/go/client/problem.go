package client

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// shownBytes is how much of an unexpected answer an error shows.
const shownBytes = 200

// problem is a problem document of RFC 9457.
type problem struct {
	Status  int     `json:"status"`
	Code    string  `json:"code"`
	Detail  string  `json:"detail"`
	Field   string  `json:"field"`
	Applied Applied `json:"applied"`
	Job     string  `json:"job"`
}

// err returns the error for the document. A document without applied is about a request that changes nothing.
func (p *problem) err(retryAfter time.Duration) *Error {
	applied := p.Applied
	if applied == "" {
		applied = AppliedNo
	}
	return &Error{
		Class:      classOf(p.Status, p.Code),
		Status:     p.Status,
		Code:       p.Code,
		Detail:     p.Detail,
		Applied:    applied,
		Field:      p.Field,
		RetryAfter: retryAfter,
		Job:        p.Job,
	}
}

// rejection returns the error for an answer that is no success. An answer without a problem document is probably of a
// proxy, which does not say whether the server has received the request.
func rejection(status int, header http.Header, body []byte) *Error {
	retryAfter := retryAfter(header, time.Now())
	var document problem
	if err := json.Unmarshal(body, &document); err == nil && document.Code != "" {
		document.Status = status
		return document.err(retryAfter)
	}
	detail := strings.ToValidUTF8(string(body[:min(len(body), shownBytes)]), "�")
	if detail == "" {
		detail = http.StatusText(status)
	}
	return &Error{
		Class:      classOf(status, ""),
		Status:     status,
		Detail:     detail,
		Applied:    AppliedUnknown,
		RetryAfter: retryAfter,
	}
}

// unreadable is the error for a success whose body is not as expected.
func unreadable(status int, err error) *Error {
	return &Error{
		Class:   ErrServer,
		Status:  status,
		Detail:  "failed to read the answer: " + err.Error(),
		Applied: AppliedUnknown,
		cause:   err,
	}
}

// retryAfter reads the header Retry-After: seconds, or a date.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
