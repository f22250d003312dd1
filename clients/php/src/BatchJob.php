<?php

declare(strict_types=1);

namespace Tidegate;

/** A job of a batch: a payload with its options. */
final class BatchJob
{
    /** @param mixed $payload a value for JSON, or {@see Bytes} */
    public function __construct(
        public readonly mixed $payload,
        public readonly ?PublishOptions $options = null,
    ) {
    }
}
