<?php

declare(strict_types=1);

namespace Tidegate\Http;

use Tidegate\Errors\InvalidRequestError;

/** A request to the server. */
final class Request
{
    /**
     * @param string $target path and query; in the client without the part up to the namespace, in a transport the URL
     * @param array<string, string> $headers
     * @param float $wait how many seconds the server may wait before it answers
     * @param bool $isRepeatable whether a repetition changes nothing that the request has changed already
     */
    public function __construct(
        public readonly string $method,
        public readonly string $target,
        public readonly array $headers = [],
        public readonly string $body = '',
        public readonly float $wait = 0.0,
        public readonly bool $isRepeatable = false,
    ) {
    }

    public static function get(string $path, float $wait = 0.0): self
    {
        return new self('GET', $path, wait: $wait, isRepeatable: true);
    }

    /** @param mixed $body a value for JSON */
    public static function json(
        string $method,
        string $path,
        mixed $body,
        bool $isRepeatable,
        float $wait = 0.0,
    ): self {
        return self::withJson($method, $path, Json::encodePayload($body), $isRepeatable, $wait);
    }

    /** @param string $json the body */
    public static function withJson(
        string $method,
        string $path,
        string $json,
        bool $isRepeatable,
        float $wait = 0.0,
    ): self {
        return new self($method, $path, ['Content-Type' => 'application/json'], $json, $wait, $isRepeatable);
    }

    /**
     * The same request with further headers.
     *
     * @param array<string, string> $headers
     * @throws InvalidRequestError if a value cannot be in a header
     */
    public function withHeaders(array $headers): self
    {
        foreach ($headers as $name => $value) {
            if (preg_match('/[\x00-\x08\x0A-\x1F\x7F]/', $value) === 1) {
                throw InvalidRequestError::found('has control characters, which no HTTP header may have', $name);
            }
        }
        $all = [...$this->headers, ...$headers];
        return new self($this->method, $this->target, $all, $this->body, $this->wait, $this->isRepeatable);
    }

    /**
     * The request that a transport sends.
     *
     * @param array<string, string> $headers
     */
    public function at(string $base, array $headers): self
    {
        $all = [...$this->headers, ...$headers];
        return new self($this->method, $base . $this->target, $all, $this->body, $this->wait, $this->isRepeatable);
    }
}
