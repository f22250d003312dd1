package client

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"
)

const (
	idempotencyKey = "idempotency_key"
	traceParent    = "traceparent"
)

// jobSpec is a job to publish.
type jobSpec struct {
	payload    Payload
	options    []wireOption
	attributes map[string]string
	// once: no random idempotency key is added.
	once bool
	err  *Error
}

// newJobSpec reads the arguments of a publish.
func newJobSpec(payload any, options []PublishOption) *jobSpec {
	job := &jobSpec{}
	read, err := payloadOf(payload)
	if err != nil {
		job.fail(asError(err))
	}
	job.payload = read
	for _, option := range options {
		option.applyPublish(job)
	}
	job.complete()
	return job
}

func (j *jobSpec) fail(err *Error) {
	if j.err == nil {
		j.err = err
	}
}

// complete adds an idempotency key where a repetition would create another job, or would be rejected because it finds
// the job of the first request.
func (j *jobSpec) complete() {
	key, hasKey := j.option("key")
	if hasKey && (key == "" || !utf8.ValidString(key)) {
		j.fail(invalid("key", "the key of a job is 1 to 255 bytes of UTF-8"))
	}
	if chosen, has := j.option(idempotencyKey); has {
		if chosen == "" || !isVisibleASCII(chosen) {
			j.fail(invalid(idempotencyKey, "an idempotency key has 1 to 255 bytes of ASCII without spaces"))
		}
		return
	}
	rule, _ := j.option("if_exists")
	if !j.once && (!hasKey || rule == string(Reject)) {
		j.options = append(j.options, wireOption{name: idempotencyKey, value: randomKey()})
	}
}

func (j *jobSpec) option(name string) (string, bool) {
	for i := range j.options {
		if j.options[i].name == name {
			return j.options[i].value, true
		}
	}
	return "", false
}

// safe reports whether a repetition creates no other job.
func (j *jobSpec) safe() bool {
	_, hasKey := j.option("key")
	_, hasIdempotencyKey := j.option(idempotencyKey)
	return hasKey || hasIdempotencyKey
}

func (j *jobSpec) setAttribute(name, value string) {
	if !isAttributeName(name) {
		j.fail(invalid("attributes", "the attribute name %q is not 1 to 64 bytes of lower-case letters, digits, -, _ and .", name))
		return
	}
	if !isHeaderText(value) {
		j.fail(invalid("attributes", "the value of the attribute %q has control characters, or begins or ends with a space", name))
		return
	}
	if j.attributes == nil {
		j.attributes = make(map[string]string)
	}
	j.attributes[name] = value
}

// request is a request for this job alone.
func (j *jobSpec) request(path string) *request {
	header := http.Header{"Content-Type": {j.payload.ContentType}}
	for _, option := range j.options {
		if option.name == idempotencyKey {
			header["Idempotency-Key"] = []string{option.value}
			continue
		}
		path = query(path, option.name, option.value)
	}
	for name, value := range j.attributes {
		header["Job-Attr-"+name] = []string{value}
	}
	if trace, has := j.attributes[traceParent]; has {
		header["Traceparent"] = []string{trace}
	}
	return &request{method: http.MethodPost, path: path, header: header, body: j.payload.Data, safe: j.safe()}
}

// batchItem writes the job as an item of a batch. A payload that was not written as JSON here is sent as base64, so that
// it cannot damage the batch: the server checks it.
func (j *jobSpec) batchItem() []byte {
	var item bytes.Buffer
	item.Grow(j.batchBytes())
	if j.payload.encoded {
		item.WriteString(`{"payload":`)
		item.Write(j.payload.Data)
	} else {
		item.WriteString(`{"payload_base64":"`)
		item.WriteString(base64.StdEncoding.EncodeToString(j.payload.Data))
		item.WriteString(`","content_type":`)
		item.Write(jsonText(j.payload.ContentType))
	}
	for _, option := range j.options {
		item.WriteString(`,"` + option.name + `":`)
		if option.raw {
			item.WriteString(option.value)
		} else {
			item.Write(jsonText(option.value))
		}
	}
	if len(j.attributes) > 0 {
		item.WriteString(`,"attributes":`)
		item.Write(jsonText(j.attributes))
	}
	item.WriteByte('}')
	return item.Bytes()
}

// batchBytes is about the length of the job as an item of a batch.
func (j *jobSpec) batchBytes() int {
	const others = 200
	if j.payload.encoded {
		return len(j.payload.Data) + others
	}
	return base64.StdEncoding.EncodedLen(len(j.payload.Data)) + others
}

// jsonText writes texts as JSON, which cannot fail.
func jsonText[T string | map[string]string](value T) []byte {
	text, _ := marshal(value)
	return text
}

func isAttributeName(name string) bool {
	for i := range len(name) {
		b := name[i]
		if !(b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '-' || b == '_' || b == '.') {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

func isHeaderText(value string) bool {
	for i := range len(value) {
		if value[i] < ' ' || value[i] == 0x7f {
			return false
		}
	}
	return strings.Trim(value, " ") == value
}

func randomKey() string {
	var random [16]byte
	// The reader of the system does not fail; since Go 1.24 a failure ends the process.
	_, _ = rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

// changeOf reads the options of a change.
func changeOf(options []ChangeOption) *jobSpec {
	change := &jobSpec{}
	for _, option := range options {
		option.applyChange(change)
	}
	return change
}

// fields returns the options as the fields of an object.
func (j *jobSpec) fields() map[string]any {
	fields := make(map[string]any, len(j.options))
	for _, option := range j.options {
		fields[option.name] = option.value
		if option.raw {
			fields[option.name] = json.RawMessage(option.value)
		}
	}
	return fields
}
