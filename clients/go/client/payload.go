package client

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

const contentTypeBytes = "application/octet-stream"

// Payload is the payload or the result of a job: bytes with a content type.
type Payload struct {
	// ContentType is like application/json or image/png. Empty if there is no result.
	ContentType string
	// Data is the bytes. JSON is as it was sent, except for white space.
	Data []byte

	// encoded says that Data is valid JSON.
	encoded bool
}

// Bytes is a payload that is not made from a Go value. If the content type is JSON, the data must be valid JSON.
func Bytes(data []byte, contentType string) Payload {
	return Payload{ContentType: contentType, Data: data}
}

// JSON is a payload with the value as JSON. The error is of the class [ErrInvalidRequest].
func JSON(value any) (Payload, error) {
	data, err := marshal(value)
	if err != nil {
		return Payload{}, invalid("payload", "failed to write the payload as JSON: %v", err)
	}
	return Payload{ContentType: contentTypeJSON, Data: data, encoded: true}, nil
}

// Empty reports whether there is no payload at all, as of a job that is done without a result.
func (p Payload) Empty() bool { return p.ContentType == "" && len(p.Data) == 0 }

// IsJSON reports whether the content type is JSON.
func (p Payload) IsJSON() bool {
	kind, _, _ := strings.Cut(p.ContentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == contentTypeJSON || strings.HasSuffix(kind, "+json")
}

// Decode reads the payload as JSON. No result is null. A number that is read into a value of type any becomes a
// json.Number, so that integers of 64 bits keep all their digits.
func (p Payload) Decode(into any) error {
	data := p.Data
	if p.Empty() {
		data = []byte("null")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return &json.SyntaxError{Offset: decoder.InputOffset()}
	}
	return nil
}

// payloadOf returns the payload for the argument of a publish.
func payloadOf(value any) (Payload, error) {
	switch value := value.(type) {
	case Payload:
		return value.checked()
	case []byte:
		return Payload{ContentType: contentTypeBytes, Data: value}, nil
	default:
		return JSON(value)
	}
}

func (p Payload) checked() (Payload, error) {
	if p.ContentType == "" {
		p.ContentType = contentTypeBytes
	}
	for i := range len(p.ContentType) {
		if b := p.ContentType[i]; b < ' ' || b > '~' {
			return p, invalid("content_type", "the content type has characters that no header may have")
		}
	}
	return p, nil
}
