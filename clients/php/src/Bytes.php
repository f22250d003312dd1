<?php

declare(strict_types=1);

namespace Tidegate;

/** A payload or a result that is not a value for JSON: bytes with a content type. */
final class Bytes
{
    public function __construct(
        public readonly string $data,
        /** Such as `image/png`, or `text/plain; charset=utf-8`. */
        public readonly string $contentType = 'application/octet-stream',
    ) {
    }
}
