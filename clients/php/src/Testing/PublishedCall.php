<?php

declare(strict_types=1);

namespace Tidegate\Testing;

use DateTimeImmutable;
use Tidegate\Instant;

/** A publish that a fake has got. */
final class PublishedCall
{
    public readonly ?string $key;
    /** When the job was due then. */
    public readonly DateTimeImmutable $runAt;

    /** @internal */
    public function __construct(
        public readonly string $queue,
        private readonly FakePayload $stored,
        /** @var array<string, mixed> the options of the wire, such as `retain` */
        public readonly array $options,
        /** @var array<string, string> */
        public readonly array $attributes,
        /** `created`, `exists`, `replaced`, `rerun` or `revived`. */
        public readonly string $outcome,
        int $runAtMs,
    ) {
        $this->key = $options['key'] ?? null;
        $this->runAt = Instant::fromMs($runAtMs);
    }

    /** The value of a JSON payload with arrays for objects, or the bytes of another payload. */
    public function payload(): mixed
    {
        return $this->stored->value();
    }
}
