<?php

declare(strict_types=1);

namespace Tidegate\Driver;

use DateTimeImmutable;
use stdClass;
use Tidegate\Bytes;
use Tidegate\Duration;
use Tidegate\IfExists;
use Tidegate\Instant;
use Tidegate\JobChange;
use Tidegate\JobFilter;
use Tidegate\JobResult;
use Tidegate\PublishOptions;

/** Arguments of the client from the fields of commands. */
final class Arguments
{
    public static function payload(stdClass $command): mixed
    {
        return isset($command->payload_base64)
            ? new Bytes(base64_decode($command->payload_base64), ...self::contentType($command))
            : $command->payload ?? null;
    }

    public static function publishOptions(stdClass $command): PublishOptions
    {
        $options = $command->options ?? new stdClass();
        return new PublishOptions(
            delay: self::duration($options->delay_ms ?? null),
            runAt: self::instant($options->run_at_ms ?? null),
            key: $options->key ?? null,
            ifExists: isset($options->if_exists) ? IfExists::from($options->if_exists) : null,
            retain: self::duration($options->retain_ms ?? null),
            lease: self::duration($options->lease_ms ?? null),
            maxAttempts: $options->max_attempts ?? null,
            retry: $options->retry ?? null,
            startWithin: self::duration($options->start_within_ms ?? null),
            priority: $options->priority ?? null,
            group: $options->group ?? null,
            durability: $options->durability ?? null,
            idempotencyKey: $options->idempotency_key ?? null,
            idempotent: $options->idempotent ?? true,
            maxDeliveries: $options->max_deliveries ?? null,
            ttl: self::duration($options->ttl_ms ?? null),
            attributes: (array) ($command->attributes ?? []),
        );
    }

    public static function change(stdClass $options): JobChange
    {
        return new JobChange(
            delay: self::duration($options->delay_ms ?? null),
            runAt: self::instant($options->run_at_ms ?? null),
            startWithin: self::duration($options->start_within_ms ?? null),
            priority: $options->priority ?? null,
        );
    }

    public static function filter(?stdClass $filter): JobFilter
    {
        return new JobFilter(
            state: $filter?->state ?? null,
            dueFrom: self::instant($filter?->due_from ?? null),
            dueBefore: self::instant($filter?->due_before ?? null),
            keyPrefix: $filter?->key_prefix ?? null,
            group: $filter?->group ?? null,
            attribute: $filter?->attribute ?? null,
            errorContains: $filter?->error_contains ?? null,
        );
    }

    public static function duration(?int $ms): ?Duration
    {
        return $ms === null ? null : Duration::milliseconds($ms);
    }

    public static function instant(int|string|null $value): ?DateTimeImmutable
    {
        return is_int($value) ? Instant::fromMs($value) : Instant::parse($value);
    }

    /** @return array<string, mixed> the fields of a payload or result */
    public static function shown(JobResult $result, string $name): array
    {
        if ($result->contentType === null) {
            return [$name => null];
        }
        return $result->isJson()
            ? [$name => $result->json(associative: false)]
            : ["{$name}_base64" => base64_encode($result->bytes), 'content_type' => $result->contentType];
    }

    /** @return list<string> */
    private static function contentType(stdClass $command): array
    {
        return isset($command->content_type) ? [$command->content_type] : [];
    }
}
