<?php

declare(strict_types=1);

namespace Tidegate;

use DateTimeImmutable;
use JsonException;
use stdClass;
use Tidegate\Http\Json;

/** A job that is leased to this process. */
class ReservedJob
{
    public readonly string $id;
    public readonly string $queue;
    /** The lease for `ack`, `fail`, `touch` and `release`. */
    public readonly string $lease;
    /** The number of this attempt, from 1. It only grows: together with the id it is a fencing token. */
    public readonly int $attempt;
    /** How many attempts have failed. */
    public readonly int $failures;
    /** How many attempts have lost their worker. */
    public readonly int $losses;
    public readonly ?string $key;
    public readonly ?string $group;
    /** @var array<string, string> */
    public readonly array $attributes;
    public readonly string $contentType;
    /** The span of the delivery, as in the header `traceparent`, if the server traces it. */
    public readonly ?string $deliverySpan;
    private readonly stdClass $document;

    /** @internal */
    public function __construct(stdClass $document)
    {
        $this->document = $document;
        $this->id = $document->id;
        $this->queue = $document->queue;
        $this->lease = $document->lease;
        $this->attempt = $document->attempt;
        $this->failures = $document->failures;
        $this->losses = $document->losses;
        $this->key = $document->key ?? null;
        $this->group = $document->group ?? null;
        $this->attributes = (array) ($document->attributes ?? []);
        $this->contentType = $document->content_type;
        $this->deliverySpan = $document->traceparent ?? null;
    }

    /** Whether the server has delivered the payload as JSON. */
    public function isJson(): bool
    {
        return !property_exists($this->document, 'payload_base64');
    }

    /**
     * The payload: the value of the JSON, or the bytes of another payload.
     *
     * @param bool $associative whether objects become arrays; else they become `stdClass`, which keeps `{}` and `[]`
     *        apart
     */
    public function payload(bool $associative = true): mixed
    {
        if (!$this->isJson()) {
            return $this->bytes();
        }
        $value = $this->document->payload ?? null;
        return $associative ? Json::toArrays($value) : $value;
    }

    /**
     * The payload as bytes. JSON is written anew, so white space and the form of numbers may differ from the publish.
     *
     * @throws JsonException
     */
    public function bytes(): string
    {
        return $this->isJson()
            ? Json::encode($this->document->payload ?? null)
            : base64_decode($this->document->payload_base64);
    }

    /** When the job was due. */
    public function runAt(): DateTimeImmutable
    {
        return Instant::parse($this->document->run_at);
    }

    /** When the job was published. */
    public function createdAt(): DateTimeImmutable
    {
        return Instant::parse($this->document->created_at);
    }

    /** When the lease ends, unless it is extended. */
    public function leaseUntil(): DateTimeImmutable
    {
        return Instant::parse($this->document->lease_until);
    }
}
