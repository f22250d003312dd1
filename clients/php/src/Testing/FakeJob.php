<?php

declare(strict_types=1);

namespace Tidegate\Testing;

use stdClass;

/**
 * A job of the fake.
 *
 * @internal
 */
final class FakeJob
{
    private const LOSSES_MAX = 5;
    private const DEFAULT_LEASE_MS = 60_000;

    public string $state = 'ready';
    public int $attempt = 0;
    public int $failures = 0;
    public int $losses = 0;
    public int $runAt;
    public int $leaseUntil = 0;
    public ?int $doneAt = null;
    public bool $cancelRequested = false;
    /** Whether the job runs again when its run has ended. */
    public bool $isReplaced = false;
    public ?FakePayload $result = null;
    public ?string $deadReason = null;
    /** @var list<array<string, mixed>> */
    public array $history = [];

    /** @param array<string, mixed> $options of the wire */
    public function __construct(
        public readonly string $id,
        public readonly string $queue,
        public FakePayload $payload,
        /** @var array<string, string> */
        public array $attributes,
        public array $options,
        public readonly int $createdAt,
    ) {
        $this->schedule($createdAt);
    }

    public function key(): ?string
    {
        return $this->options['key'] ?? null;
    }

    /** Sets when the job is due as the options say. */
    public function schedule(int $now): void
    {
        $delay = isset($this->options['delay']) ? FakeDuration::ms($this->options['delay']) : 0;
        $runAt = isset($this->options['run_at']) ? FakeDuration::instantMs($this->options['run_at']) : $now + $delay;
        $this->dueAt(max($now, $runAt), $now);
    }

    public function dueAt(int $runAt, int $now): void
    {
        $this->runAt = $runAt;
        $this->state = $runAt > $now ? 'delayed' : 'ready';
    }

    /** Brings the state up to the time. Returns whether the job still exists. */
    public function settle(int $now): bool
    {
        if ($this->state === 'leased' && $this->leaseUntil <= $now) {
            $this->lose();
        }
        if ($this->state === 'delayed' && $this->runAt <= $now) {
            $this->state = 'ready';
        }
        $within = $this->options['start_within'] ?? null;
        $isLate = $within !== null && $this->attempt === 0 && $this->runAt + FakeDuration::ms($within) <= $now;
        $isOver = $this->doneAt !== null && $this->doneAt + $this->retainMs() <= $now;
        $isCancelled = $this->cancelRequested && $this->state !== 'leased' && $this->state !== 'done';
        return !$isOver && !$isCancelled && !($isLate && $this->state === 'ready');
    }

    public function lease(): string
    {
        return "$this->id.$this->attempt.$this->queue";
    }

    public function begin(int $now, ?int $leaseMs): void
    {
        $this->attempt++;
        $this->state = 'leased';
        $this->leaseUntil = $now + $this->leaseMs($leaseMs);
    }

    public function leaseMs(?int $asked): int
    {
        $own = $this->options['lease'] ?? null;
        return $asked ?? ($own === null ? self::DEFAULT_LEASE_MS : FakeDuration::ms($own));
    }

    public function retainMs(): int
    {
        return FakeDuration::ms($this->options['retain'] ?? '0ms');
    }

    public function die(string $reason): void
    {
        $this->state = 'dead';
        $this->deadReason = $reason;
    }

    /** The document that shows the job. */
    public function shown(): stdClass
    {
        return (object) array_filter([
            'id' => $this->id,
            'queue' => $this->queue,
            'key' => $this->key(),
            'state' => $this->state,
            'priority' => $this->options['priority'] ?? null,
            'group' => $this->options['group'] ?? null,
            'created_at' => FakeDuration::instantText($this->createdAt),
            'run_at' => FakeDuration::instantText($this->runAt),
            'attempt' => $this->attempt,
            'failures' => $this->failures,
            'losses' => $this->losses,
            'attributes' => $this->attributes === [] ? null : (object) $this->attributes,
            'content_type' => $this->payload->contentType,
            'reason' => $this->deadReason,
            'history' => $this->history === [] ? null : $this->history,
        ], static fn (mixed $value): bool => $value !== null);
    }

    /** The document of a publish. */
    public function published(string $outcome): stdClass
    {
        return (object) array_filter([
            'id' => $this->id,
            'queue' => $this->queue,
            'key' => $this->key(),
            'outcome' => $outcome,
            'state' => $this->state,
            'run_at' => $this->state === 'done' ? null : FakeDuration::instantText($this->runAt),
            'durability' => 'memory',
        ], static fn (mixed $value): bool => $value !== null);
    }

    /** The document of a delivery. */
    public function delivered(): stdClass
    {
        $document = $this->shown();
        $document->lease = $this->lease();
        $document->lease_until = FakeDuration::instantText($this->leaseUntil);
        foreach ($this->payload->fields() as $name => $value) {
            $document->{$name} = $value;
        }
        return $document;
    }

    private function lose(): void
    {
        $this->losses++;
        $this->state = 'ready';
        $this->isReplaced = false;
        if ($this->losses >= self::LOSSES_MAX) {
            $this->die('losses');
        }
    }
}
