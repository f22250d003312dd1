package client

import (
	"strconv"
	"time"

	"github.com/tidegate/tidegate/clients/go/internal/wire"
)

// PublishOption is an option of a publish.
type PublishOption interface{ applyPublish(*jobSpec) }

// ChangeOption is an option that can also be changed while a job waits: [Delay], [RunAt], [StartWithin] and [Priority].
type ChangeOption interface {
	PublishOption
	applyChange(*jobSpec)
}

// ExistsRule is the rule for a publish whose key a job has.
type ExistsRule string

const (
	// Keep leaves a job that has the key as it is. A dead job is revived. This is the default.
	Keep ExistsRule = "keep"
	// Replace gives a job that waits the new content, options and time, and lets a running job run again.
	Replace ExistsRule = "replace"
	// Reject makes the publish fail with 409 key_taken.
	Reject ExistsRule = "reject"
)

// wireOption is one option as the server reads it: a text, or JSON if raw.
type wireOption struct {
	name, value string
	raw         bool
}

func (o wireOption) applyPublish(job *jobSpec) { job.options = append(job.options, o) }

// waitingOption is an option of a publish and of a change.
type waitingOption struct{ wireOption }

func (o waitingOption) applyChange(job *jobSpec) { o.applyPublish(job) }

func textOption(name, value string) PublishOption { return wireOption{name: name, value: value} }

func durationOption(name string, d time.Duration) wireOption {
	return wireOption{name: name, value: wire.DurationText(d)}
}

// Delay sets how long the job is delayed, from now on. Excludes [RunAt].
func Delay(d time.Duration) ChangeOption { return waitingOption{durationOption("delay", d)} }

// RunAt sets when the job is due: up to the year 2527. The past means now. Excludes [Delay].
func RunAt(at time.Time) ChangeOption {
	return waitingOption{wireOption{name: "run_at", value: wire.InstantText(at)}}
}

// StartWithin drops the job if no worker has started it so long after it was due.
func StartWithin(d time.Duration) ChangeOption {
	return waitingOption{durationOption("start_within", d)}
}

// Priority sets the priority, 0 (the default) to 4. Ready jobs of a higher priority are delivered first.
func Priority(priority int) ChangeOption {
	return waitingOption{wireOption{name: "priority", value: strconv.Itoa(priority), raw: true}}
}

// Key gives the job a key that is unique in its queue: 1 to 255 bytes of UTF-8 without control characters. By it the job
// is shown, changed, cancelled or replaced without its id.
func Key(key string) PublishOption { return textOption("key", key) }

// IfExists sets the rule if a job has the key. Default: [Keep].
func IfExists(rule ExistsRule) PublishOption { return textOption("if_exists", string(rule)) }

// Retain sets how long the job is kept after it is done, with its key and its result: up to 7 days. Default: as the
// policy of the queue says.
func Retain(d time.Duration) PublishOption { return durationOption("retain", d) }

// Lease sets how long a worker may hold the job without a sign: 100 ms to 24 h. Default: as the policy of the queue says.
func Lease(d time.Duration) PublishOption { return durationOption("lease", d) }

// MaxAttempts sets after how many failed attempts the job is dead, 1 to 4,095. Default: as the policy of the queue says.
func MaxAttempts(attempts int) PublishOption {
	return wireOption{name: "max_attempts", value: strconv.Itoa(attempts), raw: true}
}

// Retry sets the delays between the attempts of the job. Default: as the policy of the queue says.
func Retry(retry RetryPolicy) PublishOption { return retryOption{retry} }

type retryOption struct{ retry RetryPolicy }

func (o retryOption) applyPublish(job *jobSpec) {
	text, err := marshal(o.retry)
	if err != nil {
		job.fail(invalid("retry", "failed to write JSON: %v", err))
		return
	}
	wireOption{name: "retry", value: string(text), raw: true}.applyPublish(job)
}

// Group sets the group of the job, such as a tenant: 1 to 128 bytes. Ready jobs are delivered group by group in turn.
func Group(group string) PublishOption { return textOption("group", group) }

// Durability sets which copies must exist before the publish is answered: memory, fsync, replica:N or fsync+replica:N.
// If this is not reached in time the error has the code not_durable and [AppliedYes]. Default: as the namespace says.
func Durability(durability string) PublishOption { return textOption("durability", durability) }

// MaxDeliveries sets how often the job is delivered at most, whatever becomes of its workers. Excludes [MaxAttempts],
// [Retry] and [StartWithin].
func MaxDeliveries(deliveries int) PublishOption {
	return wireOption{name: "max_deliveries", value: strconv.Itoa(deliveries), raw: true}
}

// TTL deletes the job so long after its publish, in any state but dead. Needs [MaxDeliveries].
func TTL(d time.Duration) PublishOption { return durationOption("ttl", d) }

// IdempotencyKey makes the publish safe to repeat: for 10 minutes at least, a publish with the same key, payload and
// options returns the first job. 1 to 255 bytes of ASCII without spaces. Without a key and without this option a publish
// gets a random one.
func IdempotencyKey(key string) PublishOption { return textOption(idempotencyKey, key) }

// Idempotent says whether a publish without a key gets a random idempotency key. Default: true. With false it is repeated
// only if it was surely not stored, and returns an error with [AppliedUnknown] if its answer was lost.
func Idempotent(idempotent bool) PublishOption { return idempotentOption(idempotent) }

type idempotentOption bool

func (o idempotentOption) applyPublish(job *jobSpec) { job.once = !bool(o) }

// Attribute adds a name and a value that travel with the job apart from its payload. A name has up to 64 bytes of
// lower-case letters, digits, -, _ and .; a value has up to 1,024 bytes without control characters, and begins and ends
// with no space. A job has up to 32 attributes.
func Attribute(name, value string) PublishOption { return attribute{name, value} }

type attribute struct{ name, value string }

func (o attribute) applyPublish(job *jobSpec) { job.setAttribute(o.name, o.value) }
