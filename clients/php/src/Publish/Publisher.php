<?php

declare(strict_types=1);

namespace Tidegate\Publish;

use Throwable;
use Tidegate\Errors\ConnectionError;
use Tidegate\Errors\TidegateError;
use Tidegate\Http\Problem;
use Tidegate\Http\Sender;
use Tidegate\Loop\Future;
use Tidegate\PublishedJob;

/**
 * Publishes jobs. While a publish to a queue is in flight, further ones gather, and are sent together when it is
 * answered.
 *
 * @internal
 */
final class Publisher
{
    private const BATCH_JOBS = 100;
    private const BATCH_BYTES = 1 << 20;
    /** The statuses of a batch that one of its jobs may be to blame for. Without one the batch could not be written. */
    private const BLAMES_ONE = [null, 400, 413, 415, 422];

    /**
     * The jobs that wait for a publish in flight, by line. A line without a publish in flight is not there.
     *
     * @var array<string, list<array{PreparedJob, Future}>>
     */
    private array $lines = [];

    public function __construct(private readonly Sender $sender)
    {
    }

    /** @throws TidegateError */
    public function publish(PreparedJob $job): PublishedJob
    {
        // A batch is repeated only if all its jobs may be, so the others have their own line.
        $line = ($job->isRepeatable() ? '+' : '-') . $job->queue;
        if (isset($this->lines[$line])) {
            $future = new Future();
            $this->lines[$line][] = [$job, $future];
            return $this->sender->loop->await($future);
        }
        $this->lines[$line] = [];
        try {
            return $this->publishAlone($job);
        } finally {
            $this->sendGathered($line);
        }
    }

    private function publishAlone(PreparedJob $job): PublishedJob
    {
        return PublishedJob::of($this->sender->send($job->request())->document());
    }

    private function sendGathered(string $line): void
    {
        if ($this->lines[$line] === []) {
            unset($this->lines[$line]);
            return;
        }
        $this->sender->loop->spawn(function () use ($line): void {
            while ($this->lines[$line] !== []) {
                $this->sendBatch($this->takeBatch($line));
            }
            unset($this->lines[$line]);
        });
    }

    /** @return non-empty-list<array{PreparedJob, Future}> */
    private function takeBatch(string $line): array
    {
        $bytes = 0;
        $count = 0;
        foreach ($this->lines[$line] as [$job]) {
            $bytes += $job->size();
            if ($count === self::BATCH_JOBS || ($count > 0 && $bytes > self::BATCH_BYTES)) {
                break;
            }
            $count++;
        }
        return array_splice($this->lines[$line], 0, $count);
    }

    /** @param non-empty-list<array{PreparedJob, Future}> $batch */
    private function sendBatch(array $batch): void
    {
        if (count($batch) === 1) {
            $this->settleAlone(...$batch[0]);
            return;
        }
        try {
            $answer = $this->sender->send(PreparedJob::batch(array_column($batch, 0), false));
            $results = $answer->results(count($batch));
            foreach ($batch as $index => [, $future]) {
                $result = self::result($results[$index]);
                $result instanceof PublishedJob ? $future->complete($result) : $future->fail($result);
            }
        } catch (Throwable $error) {
            $this->settleFailed($batch, $error);
        }
    }

    /** @param non-empty-list<array{PreparedJob, Future}> $batch */
    private function settleFailed(array $batch, Throwable $error): void
    {
        $isAnswer = $error instanceof TidegateError && !$error instanceof ConnectionError;
        if ($isAnswer && in_array($error->status, self::BLAMES_ONE, true)) {
            foreach ($batch as [$job, $future]) {
                $this->settleAlone($job, $future);
            }
            return;
        }
        foreach ($batch as [, $future]) {
            $future->fail($error);
        }
    }

    private function settleAlone(PreparedJob $job, Future $future): void
    {
        try {
            $future->complete($this->publishAlone($job));
        } catch (Throwable $error) {
            $future->fail($error);
        }
    }

    /** The result of one job of a batch. */
    public static function result(\stdClass $result): PublishedJob|TidegateError
    {
        return isset($result->problem) ? Problem::ofDocument($result->problem) : PublishedJob::of($result);
    }
}
