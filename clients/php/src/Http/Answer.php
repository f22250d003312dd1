<?php

declare(strict_types=1);

namespace Tidegate\Http;

use JsonException;
use stdClass;
use Tidegate\Errors\TidegateError;

/** An answer of the server. */
final class Answer
{
    /** @param array<string, string> $headers by their names in lower case */
    public function __construct(
        public readonly int $status,
        public readonly array $headers,
        public readonly string $body,
    ) {
    }

    public function header(string $name): ?string
    {
        return $this->headers[$name] ?? null;
    }

    public function isSuccess(): bool
    {
        return $this->status >= 200 && $this->status < 300;
    }

    /**
     * The object in the body.
     *
     * @throws TidegateError if there is none
     */
    public function document(): stdClass
    {
        try {
            $document = Json::decodeAnswer($this->body);
        } catch (JsonException $error) {
            throw Problem::unreadable($this, $error->getMessage());
        }
        return $document instanceof stdClass ? $document : throw Problem::unreadable($this, 'it is no object');
    }

    /**
     * The results in the body, of which there must be so many.
     *
     * @return list<stdClass>
     * @throws TidegateError
     */
    public function results(int $count): array
    {
        $results = $this->document()->results ?? null;
        $isComplete = is_array($results) && array_is_list($results) && count($results) === $count
            && array_filter($results, static fn (mixed $it): bool => !$it instanceof stdClass) === [];
        return $isComplete ? $results : throw Problem::unreadable($this, "it does not have $count results");
    }
}
