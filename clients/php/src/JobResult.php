<?php

declare(strict_types=1);

namespace Tidegate;

use JsonException;
use Tidegate\Http\Json;

/** A payload as it is stored, or the result of a job that is done. */
final class JobResult
{
    /** @internal */
    public function __construct(
        /** The bytes; empty if the job is done without a result. */
        public readonly string $bytes,
        /** The content type of the bytes; `null` if the job is done without a result. */
        public readonly ?string $contentType,
    ) {
    }

    /** Whether the bytes are JSON. */
    public function isJson(): bool
    {
        return $this->contentType !== null && Json::isContentType($this->contentType);
    }

    /**
     * The value of the JSON; `null` if there is no result.
     *
     * @param bool $associative whether objects become arrays; else they become `stdClass`
     * @throws JsonException if the bytes are not JSON
     */
    public function json(bool $associative = true): mixed
    {
        return $this->contentType === null ? null : Json::decode($this->bytes, $associative);
    }
}
