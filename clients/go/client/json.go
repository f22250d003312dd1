package client

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/tidegate/tidegate/clients/go/internal/wire"
)

// optional returns a pointer to a duration in JSON; nil stays nil.
func optional(d *time.Duration) *wire.Duration {
	return (*wire.Duration)(d)
}

// ofMilliseconds returns a duration; nil stays nil.
func ofMilliseconds(ms *int64) *time.Duration {
	if ms == nil {
		return nil
	}
	d := time.Duration(*ms) * time.Millisecond
	return &d
}

// marshal writes JSON without escapes for HTML, so that a payload is stored as it is.
func marshal(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

// Ptr returns a pointer to a value, for optional fields.
func Ptr[T any](value T) *T { return &value }
