<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use Tidegate\Client;
use Tidegate\Errors\InvalidRequestError;

/**
 * The fields that all requests of a worker for jobs have.
 *
 * @internal
 */
final class ReserveFields
{
    private const QUEUES_MAX = 16;
    private const NAME_BYTES_MAX = 128;

    /**
     * @param list<string> $queues
     * @return array<string, mixed>
     * @throws InvalidRequestError
     */
    public static function of(WorkerOptions $options, array $queues): array
    {
        $count = count($queues);
        if ($count < 1 || $count > self::QUEUES_MAX) {
            throw InvalidRequestError::found('a worker has handlers for 1 to 16 queues, not ' . $count, 'queues');
        }
        $fields = [
            'queues' => self::choices($options, $queues),
            'order' => $options->strict ? 'strict' : 'weighted',
            'worker' => mb_strcut(mb_scrub($options->name, 'UTF-8'), 0, self::NAME_BYTES_MAX, 'UTF-8'),
        ];
        if ($options->lease !== null) {
            $fields['lease'] = (string) $options->lease;
        }
        return $fields;
    }

    /**
     * @param list<string> $queues
     * @return list<mixed>
     */
    private static function choices(WorkerOptions $options, array $queues): array
    {
        $unknown = array_diff(array_map(strval(...), array_keys($options->weights)), $queues);
        if ($unknown !== []) {
            $detail = 'there is no handler for the queue ' . implode(', ', $unknown);
            throw InvalidRequestError::found($detail, 'weights');
        }
        if ($options->weights === [] || $options->strict) {
            return $queues;
        }
        $weights = array_map(static fn (string $queue): int => $options->weights[$queue] ?? 1, $queues);
        return Client::queueChoices(array_combine($queues, $weights));
    }
}
