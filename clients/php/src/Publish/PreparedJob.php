<?php

declare(strict_types=1);

namespace Tidegate\Publish;

use Tidegate\Bytes;
use Tidegate\Errors\InvalidRequestError;
use Tidegate\Http\Json;
use Tidegate\Http\Path;
use Tidegate\Http\Request;
use Tidegate\IfExists;
use Tidegate\PublishOptions;

/**
 * A job that is ready to be sent, alone or in a batch.
 *
 * @internal
 */
final class PreparedJob
{
    private const JSON = 'application/json';
    private const ATTRIBUTE_NAME = '/^[a-z0-9._-]{1,64}$/';
    private const ATTRIBUTES_MAX = 32;
    private const IDEMPOTENCY_KEY = '/^[\x21-\x7E]{1,255}$/';

    /**
     * @param array<string, mixed> $fields the options of the wire
     * @param array<string, string> $attributes
     */
    private function __construct(
        public readonly string $queue,
        private readonly string $body,
        private readonly string $contentType,
        private readonly bool $isValue,
        private readonly array $fields,
        private readonly array $attributes,
        private readonly ?string $idempotencyKey,
        private readonly ?string $traceParent,
    ) {
    }

    /**
     * @param mixed $payload a value for JSON, or {@see Bytes}
     * @throws InvalidRequestError
     */
    public static function of(string $queue, mixed $payload, ?PublishOptions $options, ?string $traceParent): self
    {
        $options ??= new PublishOptions();
        $attributes = $options->attributes;
        if ($traceParent !== null && count($attributes) < self::ATTRIBUTES_MAX) {
            $attributes += ['traceparent' => $traceParent];
        }
        foreach ($attributes as $name => $value) {
            self::checkAttribute((string) $name, $value);
        }
        $isValue = !$payload instanceof Bytes;
        return new self(
            $queue,
            $isValue ? Json::encodePayload($payload) : $payload->data,
            $isValue ? self::JSON : $payload->contentType,
            $isValue,
            $options->fields(),
            $attributes,
            self::idempotencyKey($options),
            $traceParent,
        );
    }

    /** Whether a repetition finds the job of the first request. */
    public function isRepeatable(): bool
    {
        return isset($this->fields['key']) || $this->idempotencyKey !== null;
    }

    /** The request that publishes this job alone. */
    public function request(): Request
    {
        return $this->requestTo('/jobs', $this->fields, 0.0);
    }

    /** The request that publishes this job, and waits so long for its result. */
    public function call(int $waitMs): Request
    {
        return $this->requestTo('/jobs/call', [...$this->fields, 'wait' => $waitMs . 'ms'], $waitMs / 1000);
    }

    /** @param array<string, mixed> $parameters */
    private function requestTo(string $route, array $parameters, float $wait): Request
    {
        $headers = ['Content-Type' => $this->contentType];
        if ($this->idempotencyKey !== null) {
            $headers['Idempotency-Key'] = $this->idempotencyKey;
        }
        if ($this->traceParent !== null) {
            // By this header the server traces the publish.
            $headers['traceparent'] = $this->traceParent;
        }
        foreach ($this->attributes as $name => $value) {
            $headers["Job-Attr-$name"] = $value;
        }
        $path = Path::with(Path::queue($this->queue, $route), $parameters);
        $request = new Request('POST', $path, [], $this->body, $wait, $this->isRepeatable());
        return $request->withHeaders($headers);
    }

    /** The item of a batch, as JSON. */
    public function item(): string
    {
        $fields = $this->fields;
        if ($this->idempotencyKey !== null) {
            $fields['idempotency_key'] = $this->idempotencyKey;
        }
        if ($this->attributes !== []) {
            $fields['attributes'] = (object) $this->attributes;
        }
        if (!$this->isValue) {
            $fields['content_type'] = $this->contentType;
        }
        $payload = $this->isValue
            ? '"payload":' . $this->body
            : '"payload_base64":"' . base64_encode($this->body) . '"';
        return $fields === [] ? "{{$payload}}" : "{{$payload}," . substr(Json::encodePayload((object) $fields), 1);
    }

    /**
     * The request for several jobs of a queue.
     *
     * @param non-empty-list<self> $jobs
     */
    public static function batch(array $jobs, bool $isAtomic): Request
    {
        $isRepeatable = true;
        $items = [];
        foreach ($jobs as $job) {
            $isRepeatable = $isRepeatable && $job->isRepeatable();
            $items[] = $job->item();
        }
        $body = '{"jobs":[' . implode(',', $items) . ']' . ($isAtomic ? ',"atomic":true}' : '}');
        $path = Path::queue($jobs[0]->queue, '/jobs/batch');
        return Request::withJson('POST', $path, $body, $isRepeatable);
    }

    /** About how many bytes the job takes in a batch. */
    public function size(): int
    {
        return 512 + ($this->isValue ? strlen($this->body) : intdiv(strlen($this->body) * 4, 3));
    }

    private static function idempotencyKey(PublishOptions $options): ?string
    {
        $key = $options->idempotencyKey;
        if ($key !== null) {
            return preg_match(self::IDEMPOTENCY_KEY, $key) === 1
                ? $key
                : throw InvalidRequestError::found('has 1 to 255 bytes of ASCII without spaces', 'idempotency_key');
        }
        // A repetition with `reject` would find the job of the first request, and be rejected.
        $needsKey = $options->key === null || $options->ifExists === IfExists::Reject;
        return $needsKey && $options->idempotent ? bin2hex(random_bytes(16)) : null;
    }

    private static function checkAttribute(string $name, mixed $value): void
    {
        $detail = match (true) {
            preg_match(self::ATTRIBUTE_NAME, $name) !== 1
                => "the name \"$name\" is not 1 to 64 lower-case letters, digits, `-`, `_` and `.`",
            !is_string($value) => "the value of \"$name\" is not a string",
            trim($value) !== $value => "the value of \"$name\" has spaces at its ends",
            default => null,
        };
        if ($detail !== null) {
            throw InvalidRequestError::found($detail, 'attributes');
        }
    }
}
