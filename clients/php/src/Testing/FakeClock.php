<?php

declare(strict_types=1);

namespace Tidegate\Testing;

use DateInterval;
use DateTimeImmutable;
use DateTimeInterface;
use Tidegate\Duration;
use Tidegate\Instant;

/** A clock that stands still until it is moved. */
final class FakeClock
{
    private int $ms;

    /** @param DateTimeInterface|null $now default: the time of the system */
    public function __construct(?DateTimeInterface $now = null)
    {
        $this->ms = Instant::toMs($now ?? new DateTimeImmutable());
    }

    public function now(): DateTimeImmutable
    {
        return Instant::fromMs($this->ms);
    }

    /** Milliseconds since 1970. */
    public function nowMs(): int
    {
        return $this->ms;
    }

    /** Moves the clock forward. */
    public function advance(Duration|DateInterval $time): void
    {
        $this->ms += Duration::from($time)->ms;
    }

    /** Moves the clock to an instant. One that is past has no effect. */
    public function moveTo(DateTimeInterface $instant): void
    {
        $this->ms = max($this->ms, Instant::toMs($instant));
    }
}
