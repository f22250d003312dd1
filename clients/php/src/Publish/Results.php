<?php

declare(strict_types=1);

namespace Tidegate\Publish;

use Tidegate\Duration;
use Tidegate\Errors\TidegateError;
use Tidegate\Http\Answer;
use Tidegate\Http\Path;
use Tidegate\Http\Request;
use Tidegate\Http\Sender;
use Tidegate\JobResult;
use Tidegate\PendingJob;

/**
 * Waits for the results of jobs.
 *
 * @internal
 */
final class Results
{
    /** The longest wait of one request, in ms. Proxies close connections that are silent for longer. */
    private const REQUEST_WAIT_MS = 20_000;

    public function __construct(private readonly Sender $sender)
    {
    }

    /** @throws TidegateError */
    public function call(PreparedJob $job, Duration $wait): JobResult|PendingJob
    {
        $end = $this->sender->loop->now() + $wait->inSeconds();
        $ms = min($wait->ms, self::REQUEST_WAIT_MS);
        $answer = $this->sender->send($job->call($ms), $end + $this->sender->timeLimit);
        if ($answer->header('tidegate-job-id') !== null || $answer->status === 204) {
            return self::resultOf($answer);
        }
        $pending = new PendingJob($job->queue, $answer->document()->id);
        $left = $end - $this->sender->loop->now();
        return $left > 0
            ? $this->fetchUntil(Path::job($job->queue, $pending->id, '/result'), $end) ?? $pending
            : $pending;
    }

    /**
     * The result of a job by the path of its result; `null` if the job has not ended in time.
     *
     * @throws TidegateError
     */
    public function fetch(string $path, Duration $wait): ?JobResult
    {
        return $this->fetchUntil($path, $this->sender->loop->now() + $wait->inSeconds());
    }

    private function fetchUntil(string $path, float $end): ?JobResult
    {
        while (true) {
            $left = max(0.0, $end - $this->sender->loop->now());
            $ms = (int) min(ceil($left * 1000), self::REQUEST_WAIT_MS);
            $request = Request::get(Path::with($path, ['wait' => $ms . 'ms']), $ms / 1000);
            $answer = $this->sender->send($request, $end + $this->sender->timeLimit);
            if ($answer->status !== 202) {
                return self::resultOf($answer);
            }
            if ($this->sender->loop->now() >= $end) {
                return null;
            }
        }
    }

    private static function resultOf(Answer $answer): JobResult
    {
        $contentType = $answer->status === 204 ? null : $answer->header('content-type');
        return new JobResult($answer->body, $contentType);
    }
}
