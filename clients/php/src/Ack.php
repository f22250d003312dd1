<?php

declare(strict_types=1);

namespace Tidegate;

/** A job that is done, with its result. */
final class Ack
{
    /** @param mixed $result a value for JSON, or {@see Bytes}; up to 256 KiB; `null` is no result */
    public function __construct(
        public readonly string $lease,
        public readonly mixed $result = null,
    ) {
    }

    /**
     * The item of the wire.
     *
     * @internal
     */
    public function toWire(): string|object
    {
        if ($this->result === null) {
            return $this->lease;
        }
        if (!$this->result instanceof Bytes) {
            return (object) ['lease' => $this->lease, 'result' => $this->result];
        }
        $bytes = $this->result;
        return (object) [
            'lease' => $this->lease,
            'result_base64' => base64_encode($bytes->data),
            'content_type' => $bytes->contentType,
        ];
    }
}
