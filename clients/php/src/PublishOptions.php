<?php

declare(strict_types=1);

namespace Tidegate;

use DateInterval;
use DateTimeInterface;
use stdClass;
use Tidegate\Errors\InvalidRequestError;

/** The options of a publish. Options that are `null` are as the policy of the queue says. */
final class PublishOptions
{
    /**
     * @param Duration|DateInterval|null $delay how long the job is delayed, up to 557 years; excludes `runAt`
     * @param DateTimeInterface|null $runAt when the job is due; the past means now; excludes `delay`
     * @param string|null $key a name that is unique in the queue: 1 to 255 bytes of UTF-8 without control characters
     * @param IfExists|null $ifExists the rule if a job has the key; default: keep
     * @param Duration|DateInterval|null $retain how long the finished job stays with its key and result, up to 7 days
     * @param Duration|DateInterval|null $lease how long a worker holds the job without an extension, 100 ms to 24 h
     * @param int|null $maxAttempts after how many failed attempts the job is dead, 1 to 4,095
     * @param array<string, mixed>|stdClass|null $retry when failed attempts are repeated, as of the server:
     *        `['delays' => ['2m', '1h']]`, `['every' => '30s']`, or `['first' => '1s', 'factor' => 2, 'max' => '1h']`
     * @param Duration|DateInterval|null $startWithin drops the job if no worker has started it so long after it was due
     * @param int|null $priority 0 to 4: ready jobs of a higher priority are delivered first; default: 0
     * @param string|null $group a group, such as a tenant, 1 to 128 bytes; groups take turns
     * @param string|null $durability what must have stored the job before the answer, such as `replica:1` or `fsync`
     * @param string|null $idempotencyKey makes a repetition return the first job, for 10 minutes; 1 to 255 bytes of
     *        ASCII
     * @param bool $idempotent whether a publish without a key gets a random idempotency key, which makes it safe to
     *        repeat
     * @param int|null $maxDeliveries how often the job is delivered at most; excludes `maxAttempts`, `retry` and
     *        `startWithin`
     * @param Duration|DateInterval|null $ttl deletes the job so long after its publish; needs `maxDeliveries`
     * @param array<string, string> $attributes up to 32 texts that travel with the job; names of lower-case letters,
     *        digits, `-`, `_` and `.`; values of up to 1,024 bytes
     */
    public function __construct(
        public readonly Duration|DateInterval|null $delay = null,
        public readonly ?DateTimeInterface $runAt = null,
        public readonly ?string $key = null,
        public readonly ?IfExists $ifExists = null,
        public readonly Duration|DateInterval|null $retain = null,
        public readonly Duration|DateInterval|null $lease = null,
        public readonly ?int $maxAttempts = null,
        public readonly array|stdClass|null $retry = null,
        public readonly Duration|DateInterval|null $startWithin = null,
        public readonly ?int $priority = null,
        public readonly ?string $group = null,
        public readonly ?string $durability = null,
        public readonly ?string $idempotencyKey = null,
        public readonly bool $idempotent = true,
        public readonly ?int $maxDeliveries = null,
        public readonly Duration|DateInterval|null $ttl = null,
        public readonly array $attributes = [],
    ) {
    }

    /**
     * The fields of the wire, without the attributes and the idempotency key.
     *
     * @internal
     *
     * @return array<string, mixed>
     * @throws InvalidRequestError
     */
    public function fields(): array
    {
        $fields = [
            'delay' => self::duration($this->delay),
            'run_at' => $this->runAt === null ? null : Instant::toMs($this->runAt),
            'key' => $this->key,
            'if_exists' => $this->ifExists?->value,
            'retain' => self::duration($this->retain),
            'lease' => self::duration($this->lease),
            'max_attempts' => $this->maxAttempts,
            'retry' => $this->retry === null ? null : (object) $this->retry,
            'start_within' => self::duration($this->startWithin),
            'priority' => $this->priority,
            'group' => $this->group,
            'durability' => $this->durability,
            'max_deliveries' => $this->maxDeliveries,
            'ttl' => self::duration($this->ttl),
        ];
        return array_filter($fields, static fn (mixed $value): bool => $value !== null);
    }

    private static function duration(Duration|DateInterval|null $value): ?string
    {
        return $value === null ? null : (string) Duration::from($value);
    }
}
